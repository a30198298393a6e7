//! Rules for the tree as a whole that no compiler checks.
//!
//! Start with [`architecture`] for the borders of crates, [`names`] and [`comments`] for the language.

mod architecture;
mod comments;
mod commits;
mod dependencies;
mod names;
mod pages;
mod scenarios;
