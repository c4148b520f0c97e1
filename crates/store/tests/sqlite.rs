//! SQLite passes the suite, as a long-lived process and as a short one.

mod long {
    relight_testkit::conformance_suite!(harness);

    fn harness() -> crate::sqlite_harness::SqliteHarness {
        crate::sqlite_harness::SqliteHarness::new(relight_store::sqlite::Use::Long)
    }
}

mod short {
    relight_testkit::conformance_suite!(harness);

    fn harness() -> crate::sqlite_harness::SqliteHarness {
        crate::sqlite_harness::SqliteHarness::new(relight_store::sqlite::Use::Short)
    }
}
