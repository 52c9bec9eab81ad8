//! Tests of lanes, pools and the worker controller. tests/model.rs tests the ring under all
//! interleavings.

mod lane;
mod pool;
mod worker_controller;
