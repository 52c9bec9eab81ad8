//! The real server and the real client, started for one test and gone with it.
