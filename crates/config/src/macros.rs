//! The macros of this crate: enums that a keyword chooses from, and tables of keywords.

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
            /// The accepted spellings. A table may have words of its own for some.
            #[allow(dead_code)]
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
/// the table, and the struct of the options. A row starts with its field `topic.field: Type`, if
/// the keyword has one; the values that a row's kind reads become the field's type by
/// [`Setting`](crate::value::Setting). The fields after `and` belong to no single row and are set
/// by the code that builds the options. [`topics`] lists the topics; `self` is the struct of the
/// options itself.
macro_rules! keywords {
    (
        $(#[$meta:meta])* $key:ident, $table:ident;
        $(#[$struct_meta:meta])* $options:ident {
            $(
                $($(#[$doc:meta])+ $topic:ident.$field:ident: $type:ty =)?
                $name:ident [$($alias:literal)*]
                $kind:expr, $default:literal, $support:expr, $scope:ident, $repeat:ident, $dump:expr;
            )*
        }
        and { $($(#[$extra_doc:meta])* $vis:vis $extra_topic:ident.$extra:ident: $extra_type:ty,)* }
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

        topics! {
            { $key $(#[$struct_meta])* $options }
            [
                $($($topic { $(#[$doc])+ pub $field: $type = $name })?)*
                $($extra_topic { $(#[$extra_doc])* $vis $extra: $extra_type = })*
            ]
            {} {} {} {} {} {} {} {} {} {} {}
        }
    };
}

/// Sorts the fields of all rows by topic into one struct for each topic, and declares the struct of
/// the options, which holds them.
macro_rules! topics {
    ($head:tt [self $x:tt $($rest:tt)*] {$($own:tt)*} $($topics:tt)*) => {
        topics! { $head [$($rest)*] {$($own)* $x} $($topics)* }
    };
    ($head:tt [algorithms $x:tt $($rest:tt)*] $own:tt {$($have:tt)*} $($after:tt)*) => {
        topics! { $head [$($rest)*] $own {$($have)* $x} $($after)* }
    };
    ($head:tt [authentication $x:tt $($rest:tt)*] $own:tt $a:tt {$($have:tt)*} $($after:tt)*) => {
        topics! { $head [$($rest)*] $own $a {$($have)* $x} $($after)* }
    };
    ($head:tt [compression $x:tt $($rest:tt)*] $own:tt $a:tt $b:tt {$($have:tt)*} $($after:tt)*) => {
        topics! { $head [$($rest)*] $own $a $b {$($have)* $x} $($after)* }
    };
    ($head:tt [connection $x:tt $($rest:tt)*] $own:tt $a:tt $b:tt $c:tt {$($have:tt)*} $($after:tt)*) => {
        topics! { $head [$($rest)*] $own $a $b $c {$($have)* $x} $($after)* }
    };
    ($head:tt [forwarding $x:tt $($rest:tt)*] $own:tt $a:tt $b:tt $c:tt $d:tt {$($have:tt)*} $($after:tt)*) => {
        topics! { $head [$($rest)*] $own $a $b $c $d {$($have)* $x} $($after)* }
    };
    ($head:tt [host_keys $x:tt $($rest:tt)*] $own:tt $a:tt $b:tt $c:tt $d:tt $e:tt {$($have:tt)*} $($after:tt)*) => {
        topics! { $head [$($rest)*] $own $a $b $c $d $e {$($have)* $x} $($after)* }
    };
    ($head:tt [limits $x:tt $($rest:tt)*] $own:tt $a:tt $b:tt $c:tt $d:tt $e:tt $f:tt {$($have:tt)*} $($after:tt)*) => {
        topics! { $head [$($rest)*] $own $a $b $c $d $e $f {$($have)* $x} $($after)* }
    };
    ($head:tt [logging $x:tt $($rest:tt)*] $own:tt $a:tt $b:tt $c:tt $d:tt $e:tt $f:tt $g:tt {$($have:tt)*} $($after:tt)*) => {
        topics! { $head [$($rest)*] $own $a $b $c $d $e $f $g {$($have)* $x} $($after)* }
    };
    ($head:tt [session $x:tt $($rest:tt)*] $own:tt $a:tt $b:tt $c:tt $d:tt $e:tt $f:tt $g:tt $h:tt {$($have:tt)*} $($after:tt)*) => {
        topics! { $head [$($rest)*] $own $a $b $c $d $e $f $g $h {$($have)* $x} $($after)* }
    };
    ($head:tt [user_keys $x:tt $($rest:tt)*] $own:tt $a:tt $b:tt $c:tt $d:tt $e:tt $f:tt $g:tt $h:tt $i:tt {$($have:tt)*} $($after:tt)*) => {
        topics! { $head [$($rest)*] $own $a $b $c $d $e $f $g $h $i {$($have)* $x} $($after)* }
    };
    (
        { $key:ident $(#[$meta:meta])* $options:ident } []
        { $({ $(#[$doc:meta])* $vis:vis $field:ident: $type:ty = $($name:ident)? })* }
        $a:tt $b:tt $c:tt $d:tt $e:tt $f:tt $g:tt $h:tt $i:tt $j:tt
    ) => {
        topic! { $key, /// Ciphers, MACs, key exchanges, signature algorithms, and when keys are exchanged again.
            AlgorithmOptions $a }
        topic! { $key, /// Who may log in, and with which methods.
            AuthenticationOptions $b }
        topic! { $key, /// Compression, in software and by a library.
            CompressionOptions $c }
        topic! { $key, /// Addresses, sockets, and whether the peer is still there.
            ConnectionOptions $d }
        topic! { $key, /// Forwarded connections.
            ForwardingOptions $e }
        topic! { $key, /// Keys of hosts.
            HostKeyOptions $f }
        topic! { $key, /// Bounds of memory, threads, times and numbers of connections.
            LimitOptions $g }
        topic! { $key, /// Log level, syslog facility, and the form of fingerprints.
            LoggingOptions $h }
        topic! { $key, /// Sessions: terminal, environment, commands.
            SessionOptions $i }
        topic! { $key, /// Keys and certificates of users.
            UserKeyOptions $j }

        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $options {
            $($(#[$doc])* $vis $field: $type,)*
            /// Ciphers, MACs, key exchanges, signature algorithms, and when keys are exchanged again.
            pub algorithms: AlgorithmOptions,
            /// Who may log in, and with which methods.
            pub authentication: AuthenticationOptions,
            /// Compression, in software and by a library.
            pub compression: CompressionOptions,
            /// Addresses, sockets, and whether the peer is still there.
            pub connection: ConnectionOptions,
            /// Forwarded connections.
            pub forwarding: ForwardingOptions,
            /// Keys of hosts.
            pub host_keys: HostKeyOptions,
            /// Bounds of memory, threads, times and numbers of connections.
            pub limits: LimitOptions,
            /// Log level, syslog facility, and the form of fingerprints.
            pub logging: LoggingOptions,
            /// Sessions: terminal, environment, commands.
            pub session: SessionOptions,
            /// Keys and certificates of users.
            pub user_keys: UserKeyOptions,
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
                    $($field: option!(take, mistyped, $type, $($key::$name)?),)*
                    algorithms: AlgorithmOptions::of(&mut take, &mut mistyped),
                    authentication: AuthenticationOptions::of(&mut take, &mut mistyped),
                    compression: CompressionOptions::of(&mut take, &mut mistyped),
                    connection: ConnectionOptions::of(&mut take, &mut mistyped),
                    forwarding: ForwardingOptions::of(&mut take, &mut mistyped),
                    host_keys: HostKeyOptions::of(&mut take, &mut mistyped),
                    limits: LimitOptions::of(&mut take, &mut mistyped),
                    logging: LoggingOptions::of(&mut take, &mut mistyped),
                    session: SessionOptions::of(&mut take, &mut mistyped),
                    user_keys: UserKeyOptions::of(&mut take, &mut mistyped),
                };
                (options, mistyped)
            }
        }
    };
}

/// Declares the struct of a topic.
macro_rules! topic {
    (
        $key:ident, $(#[$meta:meta])* $options:ident
        { $({ $(#[$doc:meta])* $vis:vis $field:ident: $type:ty = $($name:ident)? })* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $options {
            $($(#[$doc])* $vis $field: $type,)*
        }

        impl $options {
            #[allow(unused_variables, reason = "a topic may have no rows yet")]
            fn of(
                take: &mut impl FnMut($key) -> Option<$crate::value::Value>,
                mistyped: &mut Option<$key>,
            ) -> $options {
                $options { $($field: option!(take, *mistyped, $type, $($key::$name)?),)* }
            }
        }
    };
}

/// The option of a row, or the default of a field without a row.
macro_rules! option {
    ($take:expr, $mistyped:expr, $type:ty,) => {
        <$type>::default()
    };
    ($take:expr, $mistyped:expr, $type:ty, $row:expr) => {
        match $take($row) {
            Some(value) => {
                <$type as $crate::value::Setting>::from_value(value).unwrap_or_else(|| {
                    $mistyped = Some($row);
                    Default::default()
                })
            }
            None => Default::default(),
        }
    };
}
