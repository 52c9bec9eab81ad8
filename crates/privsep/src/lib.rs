//! privsep
