//! A type of `berth_core` and its form on paper: one list of fields gives both directions.
//!
//! `core` has its own types without serde, so that the rules never bend to a file format. A type on paper has the same
//! fields or variants under the same names. Promise: a field or a variant that only one side has breaks the build.
//! Start with [`mirror`], which declares a type as well, and [`both_ways`], which takes one that is declared elsewhere.
//! A type with a session's name or id in it is `checked`: it is read back with `TryFrom`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use berth_core as core;

use crate::record::BadRecord;

/// The same value on the other side.
pub(crate) trait Mirrored<Other> {
    fn mirrored(self) -> Other;
}

/// The same value in `berth_core`, unless no version of ours would have written it.
pub(crate) trait Checked<Core> {
    fn checked(self) -> Result<Core, BadRecord>;
}

impl<Core, Paper: Mirrored<Core>> Checked<Core> for Paper {
    fn checked(self) -> Result<Core, BadRecord> {
        Ok(self.mirrored())
    }
}

impl<One: Mirrored<Other>, Other> Mirrored<Option<Other>> for Option<One> {
    fn mirrored(self) -> Option<Other> {
        self.map(One::mirrored)
    }
}

impl<One: Mirrored<Other>, Other> Mirrored<Vec<Other>> for Vec<One> {
    fn mirrored(self) -> Vec<Other> {
        self.into_iter().map(One::mirrored).collect()
    }
}

impl<One: Mirrored<Other>, Other> Mirrored<VecDeque<Other>> for VecDeque<One> {
    fn mirrored(self) -> VecDeque<Other> {
        self.into_iter().map(One::mirrored).collect()
    }
}

impl<One: Mirrored<Other>, Other> Mirrored<BTreeMap<u64, Other>> for BTreeMap<u64, One> {
    fn mirrored(self) -> BTreeMap<u64, Other> {
        self.into_iter().map(|(key, one)| (key, one.mirrored())).collect()
    }
}

/// Values that are the same on both sides, and values that have one expression for each direction.
macro_rules! plain {
    ($($same:ty),*; $($core:ty, $paper:ty: |$it:ident| $write:expr, $read:expr;)*) => {
        $(impl Mirrored<$same> for $same {
            fn mirrored(self) -> $same { self }
        })*
        $(impl Mirrored<$paper> for $core {
            fn mirrored(self) -> $paper { let $it = self; $write }
        }
        impl Mirrored<$core> for $paper {
            fn mirrored(self) -> $core { let $it = self; $read }
        })*
    };
}

plain! {
    bool, i32, u16, u32, u64, String, (String, String);
    core::Epoch, u64: |it| it.0, core::Epoch(it);
    core::Fence, u64: |it| it.0, core::Fence(it);
    core::Boot, String: |it| it.0, core::Boot(it);
    Arc<str>, String: |it| it.to_string(), it.into();
    // The keys of turns come from the turn index.
    core::TurnKeys, (): |_it| (), core::TurnKeys::default();
}

impl Mirrored<String> for core::Name {
    fn mirrored(self) -> String {
        self.to_string()
    }
}

impl Mirrored<String> for core::SessionId {
    fn mirrored(self) -> String {
        self.to_string()
    }
}

impl Checked<VecDeque<core::SessionId>> for VecDeque<String> {
    fn checked(self) -> Result<VecDeque<core::SessionId>, BadRecord> {
        self.into_iter().map(Checked::checked).collect()
    }
}

impl Checked<core::Name> for String {
    fn checked(self) -> Result<core::Name, BadRecord> {
        Ok(core::Name::parse(&self)?)
    }
}

impl Checked<core::SessionId> for String {
    fn checked(self) -> Result<core::SessionId, BadRecord> {
        core::SessionId::parse(&self).ok_or(BadRecord::Id(self))
    }
}

/// Options and lists of what is checked. A generic impl would overlap with that of what needs no check.
macro_rules! checked_in_options_and_lists {
    ($($core:ty, $paper:ty;)*) => {$(
        impl $crate::paper::Checked<Option<$core>> for Option<$paper> {
            fn checked(self) -> Result<Option<$core>, $crate::record::BadRecord> {
                self.map($crate::paper::Checked::checked).transpose()
            }
        }
        impl $crate::paper::Checked<Vec<$core>> for Vec<$paper> {
            fn checked(self) -> Result<Vec<$core>, $crate::record::BadRecord> {
                self.into_iter().map($crate::paper::Checked::checked).collect()
            }
        }
    )*};
}
pub(crate) use checked_in_options_and_lists;

checked_in_options_and_lists! {
    core::Name, String;
    core::SessionId, String;
}

/// Types with `From` in both directions that are fields of others.
macro_rules! by_from {
    ($($name:ident),*) => {$(
        impl $crate::paper::Mirrored<$name> for berth_core::$name {
            fn mirrored(self) -> $name { self.into() }
        }
        impl $crate::paper::Mirrored<berth_core::$name> for $name {
            fn mirrored(self) -> berth_core::$name { self.into() }
        }
    )*};
}
pub(crate) use by_from;

/// Both directions of a type that is declared elsewhere, by its fields or variants.
macro_rules! both_ways {
    () => {};
    (checked $kind:ident $name:ident $parts:tt $($rest:tt)*) => {
        $crate::paper::both_ways! { @write $kind $name $parts }
        impl TryFrom<$name> for berth_core::$name {
            type Error = $crate::record::BadRecord;
            fn try_from(it: $name) -> Result<Self, Self::Error> {
                Ok($crate::paper::rebuild! { it $kind $name $parts checked })
            }
        }
        impl $crate::paper::Checked<berth_core::$name> for $name {
            fn checked(self) -> Result<berth_core::$name, $crate::record::BadRecord> { self.try_into() }
        }
        $crate::paper::checked_in_options_and_lists! { berth_core::$name, $name; }
        $crate::paper::both_ways! { $($rest)* }
    };
    (@write $kind:ident $name:ident $parts:tt) => {
        impl From<berth_core::$name> for $name {
            fn from(it: berth_core::$name) -> Self {
                type Core = berth_core::$name;
                $crate::paper::rebuild! { it $kind Core $parts mirrored }
            }
        }
        impl $crate::paper::Mirrored<$name> for berth_core::$name {
            fn mirrored(self) -> $name { self.into() }
        }
    };
    ($kind:ident $name:ident $parts:tt $($rest:tt)*) => {
        $crate::paper::both_ways! { @write $kind $name $parts }
        impl From<$name> for berth_core::$name {
            fn from(it: $name) -> Self {
                $crate::paper::rebuild! { it $kind $name $parts mirrored }
            }
        }
        impl $crate::paper::Mirrored<berth_core::$name> for $name {
            fn mirrored(self) -> berth_core::$name { self.into() }
        }
        $crate::paper::both_ways! { $($rest)* }
    };
}
pub(crate) use both_ways;

/// Takes a value apart and makes one of `Self` from its converted parts.
macro_rules! rebuild {
    ($it:ident struct $from:ident { $($field:ident),* } $how:ident) => {{
        let $from { $($field),* } = $it;
        Self { $($field: $crate::paper::convert!($how $field)),* }
    }};
    ($it:ident enum $from:ident { $($variant:ident $({ $($field:ident),* })? $(($held:ident))?),* } $how:ident) => {
        match $it {$(
            $from::$variant $({ $($field),* })? $(($held))? => Self::$variant
                $({ $($field: $crate::paper::convert!($how $field)),* })?
                $(($crate::paper::convert!($how $held)))?
        ),*}
    };
}
pub(crate) use rebuild;

macro_rules! convert {
    (mirrored $value:ident) => {
        $crate::paper::Mirrored::mirrored($value)
    };
    (checked $value:ident) => {
        $crate::paper::Checked::checked($value)?
    };
}
pub(crate) use convert;

/// Declares types on paper, each with both directions. What a variant holds without names has one here: `Code(code: i32)`.
/// `[checked]` stands behind the name of a type with a session's name or id in it.
macro_rules! mirror {
    () => {};
    (
        $(#[$meta:meta])* $seen:vis struct $name:ident $([$checked:ident])? {
            $($(#[$about:meta])* $field_seen:vis $field:ident: $of:ty),* $(,)?
        }
        $($rest:tt)*
    ) => {
        #[allow(missing_docs, reason = "the type of the same name in berth_core has the docs")]
        $(#[$meta])* $seen struct $name { $($(#[$about])* $field_seen $field: $of),* }
        $crate::paper::both_ways! { $($checked)? struct $name { $($field),* } }
        $crate::paper::mirror! { $($rest)* }
    };
    (
        $(#[$meta:meta])* $seen:vis enum $name:ident $([$checked:ident])? {$(
            $(#[$about:meta])* $variant:ident
            $({ $($(#[$about_field:meta])* $field:ident: $of:ty),* $(,)? })?
            $(($held:ident: $of_held:ty))?
        ),* $(,)?}
        $($rest:tt)*
    ) => {
        #[allow(missing_docs, reason = "the type of the same name in berth_core has the docs")]
        $(#[$meta])* $seen enum $name {$(
            $(#[$about])* $variant $({ $($(#[$about_field])* $field: $of),* })? $(($of_held))?
        ),*}
        $crate::paper::both_ways! {
            $($checked)? enum $name { $($variant $({ $($field),* })? $(($held))?),* }
        }
        $crate::paper::mirror! { $($rest)* }
    };
}
pub(crate) use mirror;
