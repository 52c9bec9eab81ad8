//! The driver over real socket pairs, pipes and files, both ends in this process.

mod joined;

mod bulk;
mod crowd;
mod endpoint;
mod forwards;
mod idle;
mod keystroke;
mod order;
mod share;
