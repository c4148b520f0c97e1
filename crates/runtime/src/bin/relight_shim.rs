//! The shim alone, for programs that embed the library and are not the `relight` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    relight_runtime::supervise::shim::main()
}
