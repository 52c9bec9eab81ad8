//! CPU features beyond an architecture's baseline: a token for each feature, and levels that
//! disable features. Each architecture has a table.
#![forbid(unsafe_code)]

/// Generates the tokens, [`CpuFeatures`] and [`Level`] from a table.
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

        /// The CPU features that kernels of this crate use; `None` if absent or disabled.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct CpuFeatures {
            $($(#[$doc])* pub $field: Option<$token>,)*
        }

        /// Levels of CPU features that may be used; each level includes the lower ones.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Level {
            /// Only the target's baseline.
            Portable,
            $($(#[$level_doc])* $level,)*
        }

        impl Level {
            /// All levels, lowest first.
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
            /// These features without those above `level`.
            #[must_use]
            pub fn limited_to(self, level: Level) -> Self {
                Self {
                    $($field: self.$field.filter(|_| level >= Level::$from),)*
                }
            }

            /// Each feature's name, and whether it is available.
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

#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
mod portable;

#[cfg(target_arch = "aarch64")]
pub use aarch64::*;
#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
pub use portable::*;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;

/// The features of this CPU at each level, for tests that run once per level.
#[cfg(test)]
pub(crate) fn sets() -> Vec<CpuFeatures> {
    let levels = Level::ALL.iter();
    let mut sets: Vec<_> = levels
        .map(|level| CpuFeatures::probe().limited_to(*level))
        .collect();
    sets.dedup();
    sets
}

/// Like [`sets`], and each set again without the features whose kernels take precedence over other
/// hash kernels.
#[cfg(test)]
pub(crate) fn sets_for_hashes() -> Vec<CpuFeatures> {
    sets().into_iter().flat_map(CpuFeatures::variants).collect()
}
