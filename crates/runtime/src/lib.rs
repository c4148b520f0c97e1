//! placeholder

pub mod checkpoint_files;
