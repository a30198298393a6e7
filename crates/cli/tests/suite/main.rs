//! Commands, the gateway and the dashboard from the outside: the real binary with the fake agent, in one test binary,
//! so that the program is linked once. A module for each subject.
//!
//! Not here: the real agents (`tests/real`), a browser (`tests/browser`), generated clients (`tests/clients`).

mod acp;
mod agents;
mod commands;
mod common;
mod config;
mod crash;
mod current;
mod cursor;
mod damage;
mod dashboard;
mod doctor;
mod examples;
mod find;
mod foreign;
mod full_disk;
mod gateway;
mod gateway_auth;
mod gateway_live;
mod gateway_openapi;
mod gateway_server;
mod gateway_sessions;
mod gateway_turns;
mod grants;
mod helpers;
mod hooks;
mod hosts;
mod life;
mod lists;
mod mcp;
mod names;
mod nested;
mod notify;
mod odd_keepers;
mod ownership;
mod ps;
mod secrets;
mod shell;
mod storage;
mod streams;
mod terminal;
mod terminal_escapes;
mod tui_turns;
mod turns;
