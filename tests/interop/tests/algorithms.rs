//! Every algorithm that ours and a peer share, and all pairs of them: a login and a command each.

use interop::matrix::Check;

interop::test_each_couple!(Check::Command);
