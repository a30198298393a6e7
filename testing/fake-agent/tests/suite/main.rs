//! The fake agent on a terminal, over ACP and as a driver starts it.

mod acp;
mod driver;
mod steps;
