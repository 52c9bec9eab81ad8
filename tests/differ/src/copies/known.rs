//! Known differences of copies, with reasons. `*` in a pattern matches any text.

use crate::list::Listed;
use crate::list::Why::{self, Said, Theirs};

const SPECIAL: Why = Said("`scp -O` receiving with `-p` keeps 0777 of a mode");
const UMASK: Why = Said("mkdir of `put -r`/`scp -r` obeys the server's umask for a source of 0777");
const MISSING: Why = Said("A missing local source: the sources after it are copied too");
const NEWLINES: Why = Theirs(
    "scp -O of OpenSSH does not find what lies below a name with a newline, or loses the protocol",
);
const KEPT: Why = Said(
    "`get -r -p` and `scp -r -p` give a directory the mode of its source, whatever the umask, also an existing one",
);
const LAST_OF_OLD: Why = Said(
    "`scp -O` with several sources on servers exits 1 if any of them failed (OpenSSH forgets all but the last and exits 0)",
);
const DANGLING: Why = Theirs(
    "get -r or put -r of an empty folder onto a link that leads nowhere: OpenSSH makes nothing and says success",
);
const IN_THE_WAY: Why = Theirs(
    "get -r of a folder onto a file: OpenSSH gives the file the mode and times of the folder",
);
const UNREACHABLE: Why = Said(
    "A source on a server that cannot be reached: the sources before it are not copied either",
);
const CLOSED: Why = Theirs(
    "get -r onto a folder that is there: OpenSSH gives it the source's mode only where that denies its owner something",
);
const ONTO_FILE: Why = Theirs(
    "get -r of an empty folder onto a file: OpenSSH makes no folder, says success and gives the file the mode of the folder",
);
const ONTO_DEVICE: Why = Theirs(
    "get -r of a folder onto a device: OpenSSH gives the device the mode of the folder and may say success",
);
const FOLLOWED: Why = Said("`scp -r` follows links to directories within a tree, as `-O` does");
const SLASH: Why = Said(
    "`put -r`/`scp -r` of a directory to a new name with a trailing slash creates the directory",
);

/// All of them.
pub(crate) const LISTED: &[Listed] = &[
    one("*folder * not folder *", "scp -O*", SPECIAL),
    one("*file * not file *", "scp -O*-p*", SPECIAL),
    one("*folder * not folder *", "* put *", UMASK),
    one("*folder * not folder *", "*-p* get *", KEPT),
    one(
        "into/*: folder * not folder *",
        "*-r get *into/*: folder *",
        CLOSED,
    ),
    one("into/*: * not nothing", "scp* put *", MISSING),
    one("exits 1 not 0", "scp -O* get *", LAST_OF_OLD),
    one("exits 1 not 0", "scp -O* put *a:b*", LAST_OF_OLD),
    one("*", "scp -O*new?nline*", NEWLINES),
    one("exits 1 not 0", "*get *link to elsewhere*", DANGLING),
    one(
        "exits 1 not 0",
        "*-r*put *from/*: folder*link to elsewhere*",
        DANGLING,
    ),
    one(
        "exits 1 not 0",
        "*-r*get *from/*: folder*link to real ???",
        DANGLING,
    ),
    one(
        "into/*: device * not device *",
        "*-r*get *from/*: folder*into/*: null*",
        ONTO_DEVICE,
    ),
    one(
        "exits 1 not 0",
        "*-r*get *from/*: folder*into/*: null*",
        ONTO_DEVICE,
    ),
    one(
        "into/*: file * not file *",
        "*-r*get *from/*: folder*into/*: file*",
        IN_THE_WAY,
    ),
    one(
        "into/*: file * not file *",
        "*-r*get *from/*: file*from/*: folder*",
        IN_THE_WAY,
    ),
    one("into*: nothing not *", "scp put *'a:b'*", UNREACHABLE),
    one(
        "exits 1 not 0",
        "*-r*get * -> 't'; from/*: folder ???; into/t: file*",
        ONTO_FILE,
    ),
    one(
        "exits 1 not 0",
        "*-r*get *from/*: folder*into/*/*: file*",
        ONTO_FILE,
    ),
    one(
        "into/*/*: file * not file *",
        "*-r*get *from/*: folder*into/*/*: file*",
        ONTO_FILE,
    ),
    one(
        "exits 1 not 0",
        "*-r*get *from/*: folder*into/*: file*",
        ONTO_FILE,
    ),
    one("*", "scp -r*from/*/*: link to *", FOLLOWED),
    one("exits 0 not 1", "*-r*put * -> '*/'*", SLASH),
    one("into/*: * not nothing", "*-r*put * -> '*/'*", SLASH),
];

const fn one(how: &'static str, pattern: &'static str, why: Why) -> Listed {
    Listed {
        form: "",
        how,
        pattern,
        why,
    }
}
