//! Closed sets of labels: states, commands, causes, label values of metrics. One declaration makes the enum, its labels,
//! the parser of a label, and the list of all. A document has a member by its label, too.

use std::fmt::{Debug, Display};
use std::hash::Hash;

#[doc(hidden)]
pub use serde;

/// A member of a closed set. [`words!`](crate::words) declares the same as inherent constants and functions.
pub trait Word: Copy + Eq + Hash + Debug + Display + Send + Sync + 'static {
    /// Every member, in the order of its declaration.
    const ALL: &'static [Self];

    /// Returns the member's spelling in the database, in logs and in metrics.
    fn label(self) -> &'static str;

    /// Returns the member of this spelling, if any.
    fn parse(label: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|member| member.label() == label)
    }
}

/// Declares a closed set: `words! { /// What it is. Name { /// What this is. Member = "label", … } }`.
#[macro_export]
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $member:ident = $label:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$of])* $member),* }

        impl $name {
            /// Every member, in the order of its declaration.
            pub const ALL: &'static [Self] = &[$(Self::$member),*];

            /// Its spelling in the database, in logs and in metrics.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self { $(Self::$member => $label),* }
            }

            /// The member that is spelt so, if there is one.
            #[must_use]
            pub fn parse(label: &str) -> Option<Self> {
                <Self as $crate::kernel::Word>::parse(label)
            }
        }

        impl $crate::kernel::Word for $name {
            const ALL: &'static [Self] = Self::ALL;

            fn label(self) -> &'static str {
                self.label()
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.label())
            }
        }

        impl $crate::kernel::word::serde::Serialize for $name {
            fn serialize<S>(&self, serializer: S) -> Result<S::Ok, S::Error>
            where
                S: $crate::kernel::word::serde::Serializer,
            {
                serializer.serialize_str(self.label())
            }
        }

        impl<'de> $crate::kernel::word::serde::Deserialize<'de> for $name {
            fn deserialize<D>(deserializer: D) -> Result<Self, D::Error>
            where
                D: $crate::kernel::word::serde::Deserializer<'de>,
            {
                use $crate::kernel::word::serde::de::Error as _;
                let label = <::std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                Self::parse(&label).ok_or_else(|| D::Error::unknown_variant(&label, &[$($label),*]))
            }
        }
    };
}
