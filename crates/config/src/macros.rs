//! The two macros of this crate: enums with canonical words, and tables of keywords.

/// Declares an enum whose variants have a canonical word in the dump.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $word:literal),* $(,)? } default $default:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$vmeta])* $variant,)*
        }
        impl $name {
            /// The value for a canonical word; the default for anything else.
            pub(crate) fn from_word(word: &str) -> $name {
                match word {
                    $($word => $name::$variant,)*
                    _ => $name::$default,
                }
            }
            /// The canonical word, as the dump prints it.
            pub fn word(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)*
                }
            }
        }
    };
}

/// Declares the keywords of one kind of file: an enum whose variants index a table.
macro_rules! keyword_table {
    ($(#[$meta:meta])* $key:ident, $table:ident {
        $($name:ident [$($alias:literal)*] $kind:expr, $default:literal, $support:expr, $scope:ident, $repeat:ident, $dump:expr;)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        // Many rows are used through the table only: by the parser, the dump and the manual.
        #[allow(dead_code)]
        pub(crate) enum $key { $($name,)* }

        impl $key {
            /// Its index in the table.
            pub(crate) const fn index(self) -> usize {
                self as usize
            }
        }

        $(#[$meta])*
        pub const $table: $crate::value::Table = {
            const KEYS: &[$key] = &[$($key::$name,)*];
            fn row(index: usize) -> Option<Keyword> {
                Some(match KEYS.get(index)? {
                    $($key::$name => Keyword {
                        name: stringify!($name),
                        aliases: &[$($alias,)*],
                        kind: $kind,
                        default: $default,
                        support: $support,
                        scope: Scope::$scope,
                        repeat: Repeat::$repeat,
                        dump: $dump,
                    },)*
                })
            }
            $crate::value::Table::new(KEYS.len(), row)
        };
    };
}
