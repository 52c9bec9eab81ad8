//! What a lane, a pool and a gauge promise. The ring under all interleavings is in
//! tests/model.rs.

mod gauge;
mod lane;
mod pool;
