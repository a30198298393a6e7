//! The record in simulations and on private servers of PostgreSQL. Every random run prints its seed; `BERTH_SEED=N` repeats it.

#![forbid(unsafe_code)]

mod conformance;
mod lost_answers;
mod migrations;
mod names;
mod postgres;
mod races;
mod roles;
mod simulation;
mod tls;
mod waiting_commits;
