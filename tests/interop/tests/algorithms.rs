//! Every algorithm that ours and a peer share, and all pairs of them: a login and a command each.

use interop::matrix::{Check, couples, test};

macro_rules! couple {
    ($($name:ident: $index:expr;)*) => {
        $(
            #[test]
            fn $name() {
                let couple = &couples()[$index];
                assert_eq!(couple.name().replace([' ', '-', '>'], ""), stringify!($name)
                    .replace("ours", interop::peers::ours::Kind::tested().name()).replace('_', ""));
                test(couple, Check::Command);
            }
        )*
    };
}

couple! {
    ours_ssh_ours_sshd: 0;
    ours_ssh_openssh_sshd: 1;
    ours_ssh_dropbear: 2;
    ours_ssh_asyncssh_server: 3;
    openssh_ssh_ours_sshd: 4;
    dbclient_ours_sshd: 5;
    plink_ours_sshd: 6;
    asyncssh_ours_sshd: 7;
    paramiko_ours_sshd: 8;
}
