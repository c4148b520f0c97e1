//! Export and import of a whole schema.

mod export;
mod import;
mod line;
mod restored;

pub use self::export::PostgresExporter;
pub use self::import::PostgresImporter;
pub(super) use self::import::half_copied_from;
pub use self::restored::raise_numbers;
