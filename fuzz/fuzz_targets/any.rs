//! Every target in one program, so that there is one to link: `RELIGHT_FUZZ_TARGET` says which.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use relight_fuzz::Target;

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("RELIGHT_FUZZ_TARGET").expect("RELIGHT_FUZZ_TARGET names a target");
    Target::by_name(&name).expect("it is in the table of crates/fuzz")
});

fuzz_target!(|data: &[u8]| (TARGET.run)(data));
