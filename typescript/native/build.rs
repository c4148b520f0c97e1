//! Links the native module as Node loads it.

fn main() {
    napi_build::setup();
    // Node unloads a module when the last of its worker threads ends. Threads of the client may still be
    // on their way out then, so the code stays.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
