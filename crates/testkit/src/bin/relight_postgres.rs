//! `relight-postgres`: a PostgreSQL for tests in other languages.
//!
//! Prints its address, and ends the server when its own input ends. Without PostgreSQL it says so and
//! exits with 69.

use std::process::ExitCode;

use relight_testkit::postgres::{Cluster, Durability};

fn main() -> std::io::Result<ExitCode> {
    let Some(cluster) = Cluster::start(Durability::Unsynced) else {
        return Ok(ExitCode::from(69));
    };
    println!("{}", cluster.url("?sslmode=disable"));
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(ExitCode::SUCCESS)
}
