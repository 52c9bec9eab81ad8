//! What a CPU may have beyond its architecture's baseline: a token for each
//! feature, and levels that take features away. One table for each architecture.
#![forbid(unsafe_code)]

/// From one table: the tokens, [`CpuFeatures`] and [`Level`].
macro_rules! features {
    (
        levels { $($(#[$level_doc:meta])* $level:ident = $level_name:literal,)* }
        features {
            $($(#[$doc:meta])* $field:ident: $token:ident = $name:literal from $from:ident,)*
        }
    ) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq)]
            pub struct $token(pub(in crate::arch) ());
        )*

        /// The features of this CPU that some kernel uses.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct CpuFeatures {
            $($(#[$doc])* pub $field: Option<$token>,)*
        }

        /// How much of the CPU may be used; each level includes the ones before it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Level {
            /// Nothing beyond the target's baseline.
            Portable,
            $($(#[$level_doc])* $level,)*
        }

        impl Level {
            /// Every level, upwards.
            pub const ALL: &[Self] = &[Self::Portable, $(Self::$level,)*];

            /// The level's name in `FULMAR_CPU`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    Self::Portable => "portable",
                    $(Self::$level => $level_name,)*
                }
            }
        }

        impl CpuFeatures {
            /// These features less what lies above `level`.
            #[must_use]
            pub fn limited_to(self, level: Level) -> Self {
                Self {
                    $($field: self.$field.filter(|_| level >= Level::$from),)*
                }
            }

            /// Each feature's name, and whether it is there.
            pub(in crate::arch) fn rows(&self) -> Vec<(&'static str, bool)> {
                vec![$(($name, self.$field.is_some()),)*]
            }
        }
    };
}

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use aarch64::*;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;

/// What each level leaves of this CPU, for tests that run once for each.
#[cfg(test)]
pub(crate) fn sets() -> Vec<CpuFeatures> {
    let levels = Level::ALL.iter();
    let mut sets: Vec<_> = levels
        .map(|level| CpuFeatures::probe().limited_to(*level))
        .collect();
    sets.dedup();
    sets
}

/// The same, and without what hides other kernels of hashes.
#[cfg(test)]
pub(crate) fn sets_for_hashes() -> Vec<CpuFeatures> {
    sets().into_iter().flat_map(CpuFeatures::variants).collect()
}
