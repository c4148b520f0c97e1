//! The `relight` binary; all of it is in the library beside it, where tests and fuzzers reach it.

fn main() -> std::process::ExitCode {
    relight_cli::main()
}
