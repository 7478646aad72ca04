//! Statements, as text or prepared, and parameters that know their types.
//!
//! Behind a proxy that pools transactions nothing can be prepared, so the client must say which type a parameter has. The
//! types are those that the server infers when asked; builds with debug assertions compare.

use jiff::Timestamp;
use serde_json::Value;
use tokio_postgres::types::{Json, ToSql, Type};
use uuid::Uuid;

/// A value for a parameter, with the type that it is sent as.
pub trait Parameter: ToSql + Sync {
    /// The type; one of the server's own, so that no catalog lookup is needed.
    fn declared(&self) -> Type;

    /// The value for the driver.
    fn value(&self) -> &(dyn ToSql + Sync);
}

/// A type that can also be the element of an array.
pub trait Scalar: ToSql + Sync {
    /// Type of a single value.
    const ONE: Type;
    /// Type of an array of such values.
    const MANY: Type;
}

macro_rules! scalars {
    ($($rust:ty => $one:ident, $many:ident;)*) => {$(
        impl Scalar for $rust {
            const ONE: Type = Type::$one;
            const MANY: Type = Type::$many;
        }
    )*};
}

scalars! {
    bool => BOOL, BOOL_ARRAY;
    i32 => INT4, INT4_ARRAY;
    i64 => INT8, INT8_ARRAY;
    f64 => FLOAT8, FLOAT8_ARRAY;
    &str => TEXT, TEXT_ARRAY;
    String => TEXT, TEXT_ARRAY;
    Timestamp => TIMESTAMPTZ, TIMESTAMPTZ_ARRAY;
    Uuid => UUID, UUID_ARRAY;
    Value => JSONB, JSONB_ARRAY;
}

impl<T: serde::Serialize + std::fmt::Debug + Sync> Scalar for Json<T> {
    const ONE: Type = Type::JSONB;
    const MANY: Type = Type::JSONB_ARRAY;
}

impl<T: Scalar> Scalar for Option<T> {
    const ONE: Type = T::ONE;
    const MANY: Type = T::MANY;
}

impl<T: Scalar> Scalar for &T {
    const ONE: Type = T::ONE;
    const MANY: Type = T::MANY;
}

impl<T: Scalar> Parameter for T {
    fn declared(&self) -> Type {
        T::ONE
    }

    fn value(&self) -> &(dyn ToSql + Sync) {
        self
    }
}

macro_rules! arrays {
    ($($rust:ty),*) => {$(
        impl<T: Scalar> Parameter for $rust {
            fn declared(&self) -> Type {
                T::MANY
            }

            fn value(&self) -> &(dyn ToSql + Sync) {
                self
            }
        }
    )*};
}

arrays!(Vec<T>, &Vec<T>, &[T], Option<Vec<T>>, Option<&[T]>);

impl Parameter for Vec<u8> {
    fn declared(&self) -> Type {
        Type::BYTEA
    }

    fn value(&self) -> &(dyn ToSql + Sync) {
        self
    }
}

/// A statement for repeated use: prepared under a name where the session is ours, else its text alone.
#[derive(Debug, Clone)]
pub struct Statement<'a> {
    pub(super) text: &'a str,
    pub(super) prepared: Option<tokio_postgres::Statement>,
}

/// A statement that can be sent: a [`Statement`], or a text.
pub trait Say {
    /// The text.
    fn text(&self) -> &str;

    /// The prepared form, if any.
    fn prepared(&self) -> Option<&tokio_postgres::Statement> {
        None
    }
}

impl Say for Statement<'_> {
    fn text(&self) -> &str {
        self.text
    }

    fn prepared(&self) -> Option<&tokio_postgres::Statement> {
        self.prepared.as_ref()
    }
}

impl Say for str {
    fn text(&self) -> &str {
        self
    }
}

impl Say for String {
    fn text(&self) -> &str {
        self
    }
}
