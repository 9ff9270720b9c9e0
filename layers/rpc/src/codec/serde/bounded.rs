//! Serde follows its input as deep and as long as it says. This stands between postcard and the type, and ends what a hostile peer could
//! make of that: a recursion that overflows the stack, a loop over four billion elements of no bytes.
//!
//! Each part of serde that leads to other values is wrapped, and hands the wrapper on: a deserializer to its visitor, a visitor to its
//! accesses, these to seeds, and a seed to a deserializer again, one level deeper.

use std::cell::Cell;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor};

use crate::codec::MAX_DEPTH;
use crate::codec::error::DecodeError;

/// Reads a value whose sequences and maps have at most so many elements together.
pub(super) fn read<'de, T: Deserialize<'de>>(
    from: impl Deserializer<'de, Error = postcard::Error>,
    elements: usize,
) -> Result<T, DecodeError> {
    let (elements, exceeded) = (Cell::new(elements), Cell::new(None));
    let limits = Limits { depth: 0, elements: &elements, exceeded: &exceeded };
    T::deserialize(Bounded { inner: from, limits })
        .map_err(|error| exceeded.take().unwrap_or(DecodeError::Serde(error)))
}

/// What the bytes may still make serde do.
#[derive(Clone, Copy)]
struct Limits<'a> {
    depth: usize,
    elements: &'a Cell<usize>,
    exceeded: &'a Cell<Option<DecodeError>>,
}

impl Limits<'_> {
    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth == MAX_DEPTH {
            return Err(self.exceed(DecodeError::Depth));
        }
        Ok(Limits { depth: self.depth + 1, ..self })
    }

    /// Each element begins at a byte of its own, unless it takes none. Postcard tells no number that is larger than the bytes that are left.
    fn count<E: serde::de::Error>(self, told: Option<usize>) -> Result<(), E> {
        let (count, left) = (told.unwrap_or(usize::MAX), self.elements.get());
        if count > left {
            return Err(self.exceed(DecodeError::Length { count, left }));
        }
        self.elements.set(left - count);
        Ok(())
    }

    fn exceed<E: serde::de::Error>(self, error: DecodeError) -> E {
        let text = error.to_string();
        self.exceeded.set(Some(error));
        E::custom(text)
    }
}

/// A part of serde, within limits.
struct Bounded<'a, T> {
    inner: T,
    limits: Limits<'a>,
}

/// A visitor of a sequence or a map, whose length comes from the peer.
struct Counted<'a, V>(Bounded<'a, V>);

macro_rules! leads_nowhere {
    ($($name:ident)+) => {$(
        fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.inner.$name(visitor)
        }
    )+};
}

/// Method, its arguments, and what wraps the visitor.
macro_rules! leads_on {
    ($($name:ident($($argument:ident: $type:ty),*) $wrap:expr;)+) => {$(
        fn $name<V: Visitor<'de>>(self, $($argument: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            self.inner.$name($($argument,)* $wrap(Bounded { inner: visitor, limits: self.limits.deeper()? }))
        }
    )+};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Bounded<'_, D> {
    type Error = D::Error;

    leads_nowhere! {
        deserialize_any deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128 deserialize_u8
        deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64 deserialize_char deserialize_str
        deserialize_string deserialize_bytes deserialize_byte_buf deserialize_unit deserialize_identifier deserialize_ignored_any
    }

    leads_on! {
        deserialize_unit_struct(name: &'static str) |each| each;
        deserialize_option() |each| each;
        deserialize_newtype_struct(name: &'static str) |each| each;
        deserialize_seq() Counted;
        deserialize_tuple(count: usize) |each| each;
        deserialize_tuple_struct(name: &'static str, count: usize) |each| each;
        deserialize_map() Counted;
        deserialize_struct(name: &'static str, fields: &'static [&'static str]) |each| each;
        deserialize_enum(name: &'static str, variants: &'static [&'static str]) |each| each;
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Bounded<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<V::Value, D::Error> {
        self.inner.visit_some(Bounded { inner: from, limits: self.limits })
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, from: D) -> Result<V::Value, D::Error> {
        self.inner.visit_newtype_struct(Bounded { inner: from, limits: self.limits })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, from: A) -> Result<V::Value, A::Error> {
        self.inner.visit_seq(Bounded { inner: from, limits: self.limits })
    }

    fn visit_map<A: MapAccess<'de>>(self, from: A) -> Result<V::Value, A::Error> {
        self.inner.visit_map(Bounded { inner: from, limits: self.limits })
    }

    fn visit_enum<A: EnumAccess<'de>>(self, from: A) -> Result<V::Value, A::Error> {
        self.inner.visit_enum(Bounded { inner: from, limits: self.limits })
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Counted<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, from: A) -> Result<V::Value, A::Error> {
        self.0.limits.count(from.size_hint())?;
        self.0.visit_seq(from)
    }

    fn visit_map<A: MapAccess<'de>>(self, from: A) -> Result<V::Value, A::Error> {
        self.0.limits.count(from.size_hint())?;
        self.0.visit_map(from)
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Bounded<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<S::Value, D::Error> {
        self.inner.deserialize(Bounded { inner: from, limits: self.limits })
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Bounded<'_, A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.inner.next_element_seed(Bounded { inner: seed, limits: self.limits })
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Bounded<'_, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.inner.next_key_seed(Bounded { inner: seed, limits: self.limits })
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.inner.next_value_seed(Bounded { inner: seed, limits: self.limits })
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'a, 'de, A: EnumAccess<'de>> EnumAccess<'de> for Bounded<'a, A> {
    type Error = A::Error;
    type Variant = Bounded<'a, A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self::Variant), A::Error> {
        let (value, variant) = self.inner.variant_seed(seed)?;
        Ok((value, Bounded { inner: variant, limits: self.limits }))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Bounded<'_, A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        self.inner.newtype_variant_seed(Bounded { inner: seed, limits: self.limits })
    }

    fn tuple_variant<V: Visitor<'de>>(self, count: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.inner.tuple_variant(count, Bounded { inner: visitor, limits: self.limits })
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.inner.struct_variant(fields, Bounded { inner: visitor, limits: self.limits })
    }
}
