//! see below
