//! Sizes as people write them: `10MiB`, `512KiB`, or bytes.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// Units, the largest first.
const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];
/// What is expected, in the words of the configuration's faults.
const EXPECTED: &str = "a size such as \"10MiB\" or \"512KiB\"";

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(u64);

impl Size {
    /// So many bytes.
    #[must_use]
    pub const fn bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// So many times 1,048,576 bytes.
    #[must_use]
    pub const fn mebibytes(mebibytes: u64) -> Self {
        Self(mebibytes << 20)
    }

    /// The number of bytes.
    #[must_use]
    pub const fn as_bytes(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = UNITS.iter().find(|(_, unit)| self.0 >= *unit && self.0.is_multiple_of(*unit));
        let (name, unit) = fits.copied().unwrap_or(("B", 1));
        write!(f, "{}{name}", self.0 / unit)
    }
}

impl FromStr for Size {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let unit = match unit.trim() {
            "" => Some(1),
            name => UNITS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, unit)| *unit),
        };
        let bytes = number.parse::<u64>().ok().zip(unit).and_then(|(number, unit)| number.checked_mul(unit));
        bytes.map(Self).ok_or(EXPECTED)
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Read;
        impl Visitor<'_> for Read {
            type Value = Size;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(EXPECTED)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
                text.parse().map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
            }

            fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<Size, E> {
                Ok(Size(bytes))
            }

            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<Size, E> {
                u64::try_from(bytes)
                    .map(Size)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(bytes), &self))
            }
        }
        from.deserialize_any(Read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_shown_as_people_write_them() {
        for (text, bytes, shown) in [
            ("10MiB", 10 << 20, "10MiB"),
            (" 512 kib ", 512 << 10, "512KiB"),
            ("1024", 1024, "1KiB"),
            ("1025B", 1025, "1025B"),
            ("2GiB", 2 << 30, "2GiB"),
            ("0", 0, "0B"),
        ] {
            let size: Size = text.parse().expect(text);
            assert_eq!((size.as_bytes(), size.to_string().as_str()), (bytes, shown), "{text}");
            assert_eq!(serde_json::from_value::<Size>(serde_json::json!(shown)).expect(shown), size);
        }
        for text in ["", "MiB", "10MB", "-1", "1.5MiB", "99999999999999999999", "99999999999999GiB"] {
            assert_eq!(text.parse::<Size>(), Err(EXPECTED), "{text}");
        }
        assert_eq!(serde_json::from_value::<Size>(serde_json::json!(7)).expect("bytes"), Size::bytes(7));
        let said = serde_json::from_value::<Size>(serde_json::json!(-7)).expect_err("negative").to_string();
        assert!(said.contains("10MiB"), "{said}");
    }
}
