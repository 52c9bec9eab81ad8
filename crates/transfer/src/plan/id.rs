//! Numbers of what a copy has in progress: files, directories and lookups. Each kind has a type of
//! its own, so that no number is used for another kind; [`Subject`] is the one place where they
//! become the plain number of a [`Token`] and come back from it.

use crate::engine::{Op, Token};

/// A number that a [`Slab`](super::slab::Slab) gives to one kind of thing.
pub(crate) trait Id: Copy {
    /// The id of this place in the slab.
    fn of_index(index: usize) -> Self;

    /// The place in the slab.
    fn index(self) -> usize;
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) struct $name(usize);

        impl Id for $name {
            fn of_index(index: usize) -> Self {
                Self(index)
            }

            fn index(self) -> usize {
                self.0
            }
        }
    )*};
}

ids! {
    /// A file in progress.
    FileId,
    /// A directory in progress.
    DirId,
    /// An item whose STAT is unanswered.
    LookId,
}

impl FileId {
    /// The file that a copy begins first.
    pub(crate) const FIRST: Self = Self(0);

    /// Token of a request about the file.
    pub(crate) fn token(self, op: Op) -> Token {
        Subject::File(self).token(op)
    }

    /// Token of a READ or WRITE of the file.
    pub(crate) fn data_token(self, op: Op, offset: u64, len: u32) -> Token {
        Token::data(Subject::File(self).number(), op, offset, len)
    }
}

/// What a request is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    File(FileId),
    Dir(DirId),
    Look(LookId),
}

/// Bits of a number that say what kind of thing it belongs to.
const KIND_BITS: u32 = 2;
const FILE: usize = 0;
const DIR: usize = 1;
const LOOK: usize = 2;

impl Subject {
    /// The number for a [`Token`].
    pub(crate) fn number(self) -> usize {
        let (kind, index) = match self {
            Self::File(id) => (FILE, id.index()),
            Self::Dir(id) => (DIR, id.index()),
            Self::Look(id) => (LOOK, id.index()),
        };
        index << KIND_BITS | kind
    }

    /// The subject whose [`Subject::number`] this is; `None` for any other number.
    pub(crate) fn of(number: usize) -> Option<Self> {
        let index = number >> KIND_BITS;
        match number & ((1 << KIND_BITS) - 1) {
            FILE => Some(Self::File(FileId::of_index(index))),
            DIR => Some(Self::Dir(DirId::of_index(index))),
            LOOK => Some(Self::Look(LookId::of_index(index))),
            _ => None,
        }
    }

    /// The file whose number this is.
    pub(crate) fn file(number: usize) -> Option<FileId> {
        match Self::of(number) {
            Some(Self::File(id)) => Some(id),
            _ => None,
        }
    }

    /// Token of a request about it.
    pub(crate) fn token(self, op: Op) -> Token {
        Token::new(self.number(), op)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_gives_its_subject_back_and_no_two_subjects_share_one() {
        let mut seen = std::collections::HashSet::new();
        for index in [0, 1, 2, 3, 1000] {
            for subject in [
                Subject::File(FileId(index)),
                Subject::Dir(DirId(index)),
                Subject::Look(LookId(index)),
            ] {
                assert_eq!(Subject::of(subject.number()), Some(subject));
                assert!(seen.insert(subject.number()));
            }
        }
        assert_eq!(Subject::of(3), None);
        assert_eq!(Subject::file(Subject::Dir(DirId(0)).number()), None);
    }
}
