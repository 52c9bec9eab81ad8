//! Where a copy comes to something else, with the reason. `*` of a pattern is any text.

use crate::list::Listed;
use crate::list::Why::{self, Defect, Said, Theirs};

const SPECIAL: Why = Said("`scp -O` receiving with `-p` keeps 0777 of a mode");
const UMASK: Why = Said("mkdir of `put -r`/`scp -r` obeys the server's umask for a source of 0777");
const MISSING: Why = Said("A missing local source: the sources after it are copied too");
const NEWLINES: Why = Theirs(
    "scp -O of OpenSSH does not find what lies below a name with a newline, or loses the protocol",
);
const STICKY: Why = Defect(
    "get -r over SFTP: setgid and the sticky bit of a folder are not kept; OpenSSH keeps them",
);
const LAST_OF_OLD: Why = Defect(
    "scp -O get of several sources: exit 1 if any of them failed; OpenSSH exits as the last one did (docs say it of copies between servers)",
);
const DANGLING: Why = Theirs(
    "get -r of an empty folder onto a link that leads nowhere: OpenSSH makes nothing and says success",
);
const REALPATH: Why = Defect(
    "sftp-server: REALPATH of a name that is not there with a slash behind it answers; OpenSSH's says that there is no such file",
);

const SLASH: Why = Defect(
    "put -r of a folder to a new name with a slash behind it: ours makes it, OpenSSH 9.2 refuses",
);

/// All of them.
pub(crate) const LISTED: &[Listed] = &[
    one("*folder * not folder *", "scp -O*", SPECIAL),
    one("*file * not file *", "scp -O*-p*", SPECIAL),
    one("*folder * not folder *", "* put *", UMASK),
    one("*folder * not folder *", "* get *", STICKY),
    one("into/*: * not nothing", "scp* put *", MISSING),
    one("exits 1 not 0", "scp -O* get *", LAST_OF_OLD),
    one("*", "scp -O*new?nline*", NEWLINES),
    one("exits 1 not 0", "*get *link to elsewhere*", DANGLING),
    one("exits 0 not 1", "*-r*put * -> '*/'*", SLASH),
    one("* not nothing", "sftp *put *", REALPATH),
];

const fn one(how: &'static str, pattern: &'static str, why: Why) -> Listed {
    Listed {
        form: "",
        how,
        pattern,
        why,
    }
}
