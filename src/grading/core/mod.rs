//! The rules of a grade: scores, bands, how sure we are of them, who has to look, and the messages that carry them. Pure.
//!
//! [`skill`] (what is graded) → [`score`], [`band`] (in tenths, never in floats) → [`key`] (listening and reading) →
//! [`confidence`] → [`review`] (whether a person looks) → [`result`] (the document) → [`assess`] (a model's samples become
//! one) → [`merge`] (with a person's) → [`message`] (requests and callbacks). **Invariant: nothing here does I/O, asks a
//! clock or draws a number**: both sides of the queue, the calibration and the model of the protocol count by the same code.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};

pub mod agreement;
pub mod assess;
pub mod band;
pub mod confidence;
pub mod key;
pub mod merge;
pub mod message;
pub mod result;
pub mod review;
pub mod score;
pub mod skill;

/// A JSON object: a derived reading alone would take the list of its values, too.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Keys<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        deserializer.deserialize_map(Keys(PhantomData))
    }
}

/// Reads a member that is an object.
fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Object::deserialize(deserializer).map(|Object(it)| it)
}

/// Reads a member that is a list of objects.
fn objects<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Ok(Vec::<Object<T>>::deserialize(deserializer)?.into_iter().map(|Object(it)| it).collect())
}

/// Whether a name is plain: not blank, of ASCII letters, digits and `._:/@+,-`, and no longer than that many bytes. Such a
/// name can stand in a log, a metric and a page as it is.
fn is_plain(name: &str, most: usize) -> bool {
    !name.is_empty() && name.len() <= most && name.chars().all(is_plain_char)
}

fn is_plain_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':' | '/' | '@' | '+' | ',' | '-')
}
