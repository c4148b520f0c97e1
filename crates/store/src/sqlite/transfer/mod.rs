//! The file as a whole: read in one transaction, filled page by page.

mod export;
mod import;
mod restored;

pub use self::export::SqliteExporter;
pub use self::import::SqliteImporter;
pub(super) use self::import::half_copied_from;
pub use self::restored::raise_numbers;
