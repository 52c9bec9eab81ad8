//! 10 MiB through `cat` for each cipher with each MAC that ours and a peer share, keys changed
//! every MiB, compared by SHA-256.

use interop::matrix::Check;

interop::test_each_couple!(Check::RoundTrip);
