//! Accessors of the algorithms that are rows of a table.

/// Implements the accessors that ciphers and MACs share.
macro_rules! spec_accessors {
    ($algorithm:ident, $spec:ident, $table:ident) => {
        impl $algorithm {
            /// The algorithm with this SSH name; `None` if unknown.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                let row = $table.iter().find(|spec| spec.name == name);
                row.map(|spec| spec.algorithm)
            }

            /// Its row in the table.
            #[must_use]
            pub const fn spec(self) -> &'static $spec {
                &$table[self as usize]
            }

            /// SSH name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                self.spec().name
            }

            /// Key length in bytes.
            #[must_use]
            pub const fn key_len(self) -> usize {
                self.spec().key_len
            }

            /// Tag length in bytes; 0 for a cipher that needs a MAC.
            #[must_use]
            pub const fn tag_len(self) -> usize {
                self.spec().tag_len
            }
        }
    };
}
pub(crate) use spec_accessors;
