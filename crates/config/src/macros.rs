//! The two macros of this crate: enums that a keyword chooses from, and tables of keywords.

/// Declares an enum that a keyword chooses from: for each variant the word that the dump prints,
/// then the other spellings that are accepted.
macro_rules! choices {
    ($(#[$meta:meta])* $name:ident {
        $($(#[$variant_meta:meta])* $variant:ident = $word:literal $(| $spelling:literal)*,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum $name {
            $($(#[$variant_meta])* $variant,)*
        }
        impl $name {
            /// The accepted spellings.
            pub(crate) const SPELLINGS: $crate::value::Spellings = &[$(
                ($word, $name::$variant.choice()),
                $(($spelling, $name::$variant.choice()),)*
            )*];

            /// The variant as a value.
            pub(crate) const fn choice(self) -> $crate::value::Choice {
                $crate::value::Choice { number: self as u8, word: self.word() }
            }

            /// The canonical word, as the dump prints it.
            pub const fn word(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)*
                }
            }
        }
        impl $crate::value::Setting for $name {
            fn from_value(value: $crate::value::Value) -> Option<$name> {
                match value {
                    $crate::value::Value::Choice(choice) => {
                        [$($name::$variant,)*].get(usize::from(choice.number)).copied()
                    }
                    _ => None,
                }
            }
        }
    };
}

/// Declares the keywords of one kind of file, one row each: an enum whose variants index a table,
/// the table, and the struct of the options. A row starts with its field of the struct, if the
/// keyword has one; the values that a row's kind reads become the field's type by
/// [`Setting`](crate::value::Setting). The fields after `and` belong to no single row and are set
/// by the code that builds the options.
macro_rules! keywords {
    (
        $(#[$meta:meta])* $key:ident, $table:ident;
        $(#[$struct_meta:meta])* $options:ident {
            $(
                $($(#[$doc:meta])+ $field:ident: $type:ty =)?
                $name:ident [$($alias:literal)*]
                $kind:expr, $default:literal, $support:expr, $scope:ident, $repeat:ident, $dump:expr;
            )*
        }
        and { $($(#[$extra_doc:meta])* $vis:vis $extra:ident: $extra_type:ty,)* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $key { $($name,)* }

        impl $key {
            const ALL: &[$key] = &[$($key::$name,)*];

            /// Its name.
            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $($key::$name => stringify!($name),)*
                }
            }

            /// Its index in the table.
            pub(crate) const fn index(self) -> usize {
                self as usize
            }
        }

        $(#[$meta])*
        pub const $table: $crate::value::Table = {
            fn row(index: usize) -> Option<Keyword> {
                Some(match $key::ALL.get(index)? {
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
            $crate::value::Table::new($key::ALL.len(), row)
        };

        $(#[$struct_meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $options {
            $($($(#[$doc])+ pub $field: $type,)?)*
            $($(#[$extra_doc])* $vis $extra: $extra_type,)*
        }

        impl $options {
            /// The options of values with defaults, and a keyword whose value is not of its
            /// field's type, which only damaged bytes can hold. `take` returns the value of a
            /// keyword.
            pub(crate) fn of(
                mut take: impl FnMut($key) -> Option<$crate::value::Value>,
            ) -> ($options, Option<$key>) {
                let mut mistyped = None;
                let options = $options {
                    $($(
                        $field: match take($key::$name) {
                            Some(value) => <$type as $crate::value::Setting>::from_value(value)
                                .unwrap_or_else(|| {
                                    mistyped = Some($key::$name);
                                    Default::default()
                                }),
                            None => Default::default(),
                        },
                    )?)*
                    $($extra: Default::default(),)*
                };
                (options, mistyped)
            }
        }
    };
}
