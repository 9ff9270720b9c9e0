//! Maps and sets: how many entries, then the entries. No key may appear twice.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, Hash};

use super::error::DecodeError;
use super::layout::Layout;
use super::reader::Reader;
use super::traits::{Decode, Encode, Schema, count, prepared};
use super::writer::Writer;

/// Type, bounds of its keys, bounds of its hasher, and how an empty one is made for so many entries.
macro_rules! maps {
    ($($map:ident<K, V $(, $hasher:ident)?> where K: $($bound:path),+; |$from:ident, $count:ident| $new:expr;)+) => {$(
        impl<K: Schema, V: Schema $(, $hasher)?> Schema for $map<K, V $(, $hasher)?> {
            const SCHEMA: u64 = Layout::new("map").part(K::SCHEMA).part(V::SCHEMA).finish();
        }

        impl<K: Encode, V: Encode $(, $hasher)?> Encode for $map<K, V $(, $hasher)?> {
            const IS_SURE: bool = K::IS_SURE && V::IS_SURE;

            #[inline]
            fn size(&self) -> usize {
                4 + self.iter().map(|(key, value)| key.size() + value.size()).sum::<usize>()
            }

            #[inline]
            fn encode(&self, to: &mut Writer<'_>) {
                to.count(self.len());
                to.entries(self.iter(), Encode::size, Encode::encode);
            }
        }

        impl<'a, K: Decode<'a> $(+ $bound)+, V: Decode<'a> $(, $hasher: BuildHasher + Default)?> Decode<'a>
            for $map<K, V $(, $hasher)?>
        {
            const MIN_SIZE: usize = 4;

            fn decode($from: &mut Reader<'a>) -> Result<Self, DecodeError> {
                let $count = count::<(K, V)>($from)?;
                let mut map = $new;
                $from.nested(|from| {
                    for _ in 0..$count {
                        if map.insert(K::decode(from)?, V::decode(from)?).is_some() {
                            return Err(DecodeError::Duplicate);
                        }
                    }
                    Ok(map)
                })
            }
        }
    )+};
}

maps! {
    BTreeMap<K, V> where K: Ord; |from, count| BTreeMap::new();
    HashMap<K, V, S> where K: Eq, Hash; |from, count| HashMap::with_capacity_and_hasher(prepared::<(K, V)>(from, count), S::default());
}

/// As for maps.
macro_rules! sets {
    ($($set:ident<T $(, $hasher:ident)?> where T: $($bound:path),+; |$from:ident, $count:ident| $new:expr;)+) => {$(
        impl<T: Schema $(, $hasher)?> Schema for $set<T $(, $hasher)?> {
            const SCHEMA: u64 = Layout::new("set").part(T::SCHEMA).finish();
        }

        impl<T: Encode $(, $hasher)?> Encode for $set<T $(, $hasher)?> {
            const IS_SURE: bool = T::IS_SURE;

            #[inline]
            fn size(&self) -> usize {
                4 + self.iter().map(T::size).sum::<usize>()
            }

            #[inline]
            fn encode(&self, to: &mut Writer<'_>) {
                to.count(self.len());
                to.entries(self.iter(), Encode::size, Encode::encode);
            }
        }

        impl<'a, T: Decode<'a> $(+ $bound)+ $(, $hasher: BuildHasher + Default)?> Decode<'a> for $set<T $(, $hasher)?> {
            const MIN_SIZE: usize = 4;

            fn decode($from: &mut Reader<'a>) -> Result<Self, DecodeError> {
                let $count = count::<T>($from)?;
                let mut set = $new;
                $from.nested(|from| {
                    for _ in 0..$count {
                        if !set.insert(T::decode(from)?) {
                            return Err(DecodeError::Duplicate);
                        }
                    }
                    Ok(set)
                })
            }
        }
    )+};
}

sets! {
    BTreeSet<T> where T: Ord; |from, count| BTreeSet::new();
    HashSet<T, S> where T: Eq, Hash; |from, count| HashSet::with_capacity_and_hasher(prepared::<T>(from, count), S::default());
}

#[cfg(test)]
mod tests {
    use super::*;

    use super::super::traits::{from_bytes, to_canonical_vec, to_vec};

    #[test]
    fn equal_maps_have_equal_canonical_bytes() {
        let map = |keys: &[u64]| -> HashMap<u64, HashSet<String>> {
            keys.iter().map(|key| (*key, keys.iter().map(u64::to_string).collect())).collect()
        };
        let keys: Vec<u64> = (0..100).collect();
        let turned: Vec<u64> = keys.iter().rev().copied().collect();
        let (one, other) = (map(&keys), map(&turned));
        assert_ne!(to_vec(&one), to_vec(&other), "their hashers differ");
        assert_eq!(to_canonical_vec(&one), to_canonical_vec(&other));
        let bytes = to_canonical_vec(&one).expect("it can be written");
        assert_eq!(from_bytes::<HashMap<u64, HashSet<String>>>(&bytes), Ok(one));
    }
}
