//! The checkpoint document.
