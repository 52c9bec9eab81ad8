//! Two connections in memory, with virtual time.
