//! Mirrors of types of `berth_core` with serde ("on paper"): one list of fields gives the conversions in both
//! directions.
//!
//! `core` has its own types without serde, so that the rules never bend to a file format. A type on paper has equal
//! fields or variants, with equal names. Promise: a field or a variant that only one side has breaks the build.
//! Start with [`mirror`], which declares a type as well, and [`both_ways`], which takes one that is declared elsewhere.
//! A type that contains a session's name or id is `checked`: it is read back with `TryFrom`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use berth_core as core;

use crate::record::BadRecord;

/// Conversion to the other side, which cannot fail.
pub(crate) trait IntoMirror<Other> {
    fn into_mirror(self) -> Other;
}

/// Conversion to `berth_core`, which fails on a name or an id that no version of berth would write.
pub(crate) trait TryIntoCore<Core> {
    fn try_into_core(self) -> Result<Core, BadRecord>;
}

impl<Core, Paper: IntoMirror<Core>> TryIntoCore<Core> for Paper {
    fn try_into_core(self) -> Result<Core, BadRecord> {
        Ok(self.into_mirror())
    }
}

impl<One: IntoMirror<Other>, Other> IntoMirror<Option<Other>> for Option<One> {
    fn into_mirror(self) -> Option<Other> {
        self.map(One::into_mirror)
    }
}

impl<One: IntoMirror<Other>, Other> IntoMirror<Vec<Other>> for Vec<One> {
    fn into_mirror(self) -> Vec<Other> {
        self.into_iter().map(One::into_mirror).collect()
    }
}

impl<One: IntoMirror<Other>, Other> IntoMirror<VecDeque<Other>> for VecDeque<One> {
    fn into_mirror(self) -> VecDeque<Other> {
        self.into_iter().map(One::into_mirror).collect()
    }
}

impl<One: IntoMirror<Other>, Other> IntoMirror<BTreeMap<u64, Other>> for BTreeMap<u64, One> {
    fn into_mirror(self) -> BTreeMap<u64, Other> {
        self.into_iter().map(|(key, one)| (key, one.into_mirror())).collect()
    }
}

/// Types that both sides share, and types with one expression for each direction.
macro_rules! plain {
    ($($same:ty),*; $($core:ty, $paper:ty: |$it:ident| $write:expr, $read:expr;)*) => {
        $(impl IntoMirror<$same> for $same {
            fn into_mirror(self) -> $same { self }
        })*
        $(impl IntoMirror<$paper> for $core {
            fn into_mirror(self) -> $paper { let $it = self; $write }
        }
        impl IntoMirror<$core> for $paper {
            fn into_mirror(self) -> $core { let $it = self; $read }
        })*
    };
}

plain! {
    bool, i32, u16, u32, u64, String, (String, String);
    core::Epoch, u64: |it| it.0, core::Epoch(it);
    core::Fence, u64: |it| it.0, core::Fence(it);
    core::BootId, String: |it| it.0, core::BootId(it);
    Arc<str>, String: |it| it.to_string(), it.into();
    // The keys of turns come from the turn index.
    core::TurnKeys, (): |_it| (), core::TurnKeys::default();
}

impl IntoMirror<String> for core::SafeName {
    fn into_mirror(self) -> String {
        self.to_string()
    }
}

impl IntoMirror<String> for core::SessionId {
    fn into_mirror(self) -> String {
        self.to_string()
    }
}

impl TryIntoCore<VecDeque<core::SessionId>> for VecDeque<String> {
    fn try_into_core(self) -> Result<VecDeque<core::SessionId>, BadRecord> {
        self.into_iter().map(TryIntoCore::try_into_core).collect()
    }
}

impl TryIntoCore<core::SafeName> for String {
    fn try_into_core(self) -> Result<core::SafeName, BadRecord> {
        Ok(core::SafeName::parse(&self)?)
    }
}

impl TryIntoCore<core::SessionId> for String {
    fn try_into_core(self) -> Result<core::SessionId, BadRecord> {
        core::SessionId::parse(&self).ok_or(BadRecord::Id(self))
    }
}

/// Options and lists of checked types. A generic impl would overlap with the one for types without a check.
macro_rules! checked_in_options_and_lists {
    ($($core:ty, $paper:ty;)*) => {$(
        impl $crate::mirror::TryIntoCore<Option<$core>> for Option<$paper> {
            fn try_into_core(self) -> Result<Option<$core>, $crate::record::BadRecord> {
                self.map($crate::mirror::TryIntoCore::try_into_core).transpose()
            }
        }
        impl $crate::mirror::TryIntoCore<Vec<$core>> for Vec<$paper> {
            fn try_into_core(self) -> Result<Vec<$core>, $crate::record::BadRecord> {
                self.into_iter().map($crate::mirror::TryIntoCore::try_into_core).collect()
            }
        }
    )*};
}
pub(crate) use checked_in_options_and_lists;

checked_in_options_and_lists! {
    core::SafeName, String;
    core::SessionId, String;
}

/// Types with `From` in both directions that are fields of other types.
macro_rules! by_from {
    ($($name:ident),*) => {$(
        impl $crate::mirror::IntoMirror<$name> for berth_core::$name {
            fn into_mirror(self) -> $name { self.into() }
        }
        impl $crate::mirror::IntoMirror<berth_core::$name> for $name {
            fn into_mirror(self) -> berth_core::$name { self.into() }
        }
    )*};
}
pub(crate) use by_from;

/// Declares both directions for a type that is declared elsewhere, by its fields or variants.
macro_rules! both_ways {
    () => {};
    (checked $kind:ident $name:ident $parts:tt $($rest:tt)*) => {
        $crate::mirror::both_ways! { @write $kind $name $parts }
        impl TryFrom<$name> for berth_core::$name {
            type Error = $crate::record::BadRecord;
            fn try_from(it: $name) -> Result<Self, Self::Error> {
                Ok($crate::mirror::rebuild! { it $kind $name $parts checked })
            }
        }
        impl $crate::mirror::TryIntoCore<berth_core::$name> for $name {
            fn try_into_core(self) -> Result<berth_core::$name, $crate::record::BadRecord> { self.try_into() }
        }
        $crate::mirror::checked_in_options_and_lists! { berth_core::$name, $name; }
        $crate::mirror::both_ways! { $($rest)* }
    };
    (@write $kind:ident $name:ident $parts:tt) => {
        impl From<berth_core::$name> for $name {
            fn from(it: berth_core::$name) -> Self {
                type Core = berth_core::$name;
                $crate::mirror::rebuild! { it $kind Core $parts mirrored }
            }
        }
        impl $crate::mirror::IntoMirror<$name> for berth_core::$name {
            fn into_mirror(self) -> $name { self.into() }
        }
    };
    ($kind:ident $name:ident $parts:tt $($rest:tt)*) => {
        $crate::mirror::both_ways! { @write $kind $name $parts }
        impl From<$name> for berth_core::$name {
            fn from(it: $name) -> Self {
                $crate::mirror::rebuild! { it $kind $name $parts mirrored }
            }
        }
        impl $crate::mirror::IntoMirror<berth_core::$name> for $name {
            fn into_mirror(self) -> berth_core::$name { self.into() }
        }
        $crate::mirror::both_ways! { $($rest)* }
    };
}
pub(crate) use both_ways;

/// Takes a value apart and makes one of `Self` from its converted parts.
macro_rules! rebuild {
    ($it:ident struct $from:ident { $($field:ident),* } $how:ident) => {{
        let $from { $($field),* } = $it;
        Self { $($field: $crate::mirror::convert!($how $field)),* }
    }};
    ($it:ident enum $from:ident { $($variant:ident $({ $($field:ident),* })? $(($held:ident))?),* } $how:ident) => {
        match $it {$(
            $from::$variant $({ $($field),* })? $(($held))? => Self::$variant
                $({ $($field: $crate::mirror::convert!($how $field)),* })?
                $(($crate::mirror::convert!($how $held)))?
        ),*}
    };
}
pub(crate) use rebuild;

macro_rules! convert {
    (mirrored $value:ident) => {
        $crate::mirror::IntoMirror::into_mirror($value)
    };
    (checked $value:ident) => {
        $crate::mirror::TryIntoCore::try_into_core($value)?
    };
}
pub(crate) use convert;

/// Declares types on paper, each with both directions. An unnamed value of a variant gets a name here: `Code(code:
/// i32)`. `[checked]` stands behind the name of a type that contains a session's name or id.
macro_rules! mirror {
    () => {};
    (
        $(#[$meta:meta])* $seen:vis struct $name:ident $([$checked:ident])? {
            $($(#[$about:meta])* $field_seen:vis $field:ident: $of:ty),* $(,)?
        }
        $($rest:tt)*
    ) => {
        #[allow(missing_docs, reason = "the type of the same name in `berth_core` may have the docs")]
        $(#[$meta])* $seen struct $name { $($(#[$about])* $field_seen $field: $of),* }
        $crate::mirror::both_ways! { $($checked)? struct $name { $($field),* } }
        $crate::mirror::mirror! { $($rest)* }
    };
    (
        $(#[$meta:meta])* $seen:vis enum $name:ident $([$checked:ident])? {$(
            $(#[$about:meta])* $variant:ident
            $({ $($(#[$about_field:meta])* $field:ident: $of:ty),* $(,)? })?
            $(($held:ident: $of_held:ty))?
        ),* $(,)?}
        $($rest:tt)*
    ) => {
        #[allow(missing_docs, reason = "the type of the same name in `berth_core` may have the docs")]
        $(#[$meta])* $seen enum $name {$(
            $(#[$about])* $variant $({ $($(#[$about_field])* $field: $of),* })? $(($of_held))?
        ),*}
        $crate::mirror::both_ways! {
            $($checked)? enum $name { $($variant $({ $($field),* })? $(($held))?),* }
        }
        $crate::mirror::mirror! { $($rest)* }
    };
}
pub(crate) use mirror;
