//! compress
