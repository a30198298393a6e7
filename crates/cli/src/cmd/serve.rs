//! `berth serve`: runs the gateway, with options from arguments and config.
//!
//! Promise: each address is recorded before it is printed, and a terminal gets a link to log in.
//! Not here: serving (see `berth_gateway`).

use std::path::PathBuf;

use berth_api::{AccessScope, Problem, TokenKind};
use berth_config::tokens::{LINK_LIFE, TokenMaker, TokenParams, TokenStore};
use berth_gateway::{AccessLogFormat, ListenAddress, ServeOptions, TlsFiles};
use berth_verbs::gateway_urls;
use serde_json::json;

use crate::args::ServeArgs;
use crate::args::serve::LogFormatArg as Wanted;
use crate::config::{Config, serve as keys};
use crate::ctx::CommandContext;
use crate::print;

pub(crate) fn run(ctx: &CommandContext, args: &ServeArgs) -> Result<u8, Problem> {
    let config = Config::load()?.serve;
    let options = options(args, &config)?;
    let is_json = args.json;
    let allow_hosts = options.allow_hosts.clone();
    if options.insecure_http {
        print::note("without TLS, others on the network can read tokens and all messages");
    }
    let is_only_local = options.listen.iter().all(|listen| matches!(listen, ListenAddress::Socket));
    if is_only_local && !is_json && print::is_terminal() {
        print::note("to serve browsers as well: `berth serve --listen :7070`");
    }
    // A gateway inside of a session stays readable: attribution needs its environment and its open files.
    if ctx.parent.is_none() && ctx.unseen.is_none() {
        let _ = berth_host::memory::forbid_inspection();
    }
    let mut urls = Vec::new();
    berth_gateway::serve(ctx.home.clone(), options, |address| {
        let line = if is_json {
            format!("{}\n", json!({"listening": address, "pid": std::process::id()}))
        } else {
            format!("listening on {address}\n")
        };
        // Recorded before it is printed: a program that reads the line may ask for a link at once.
        let written = write_down(ctx, &address, &allow_hosts, &mut urls);
        match print::text(&line) {
            // A program waits for this line; without it the gateway would run unnoticed.
            Err(problem) if is_json => return Err(problem),
            // Without `--json` the gateway is useful without this line.
            Err(problem) => print::note(&problem.what),
            Ok(()) => {}
        }
        let welcomed = written.and_then(|first| match first {
            Some(bases) if !is_json && print::is_terminal() => invite(ctx, &bases),
            Some(_) | None => Ok(()),
        });
        if let Err(problem) = welcomed {
            print::note(&problem.what);
        }
        Ok(())
    })?;
    Ok(0)
}

fn options(args: &ServeArgs, config: &keys::ServeConfig) -> Result<ServeOptions, Problem> {
    let mut listen = vec![ListenAddress::Socket];
    if args.listen.is_empty() {
        for address in &config.listen {
            let address = address.parse().map_err(|why: String| in_config("listen", &why))?;
            listen.push(ListenAddress::Tcp(address));
        }
    }
    listen.extend(args.listen.iter().cloned().map(ListenAddress::Tcp));
    let tls = match (args.tls_cert.clone().zip(args.tls_key.clone()), &config.tls_cert, &config.tls_key) {
        (Some((cert, key)), _, _) => Some(TlsFiles { cert, key }),
        (None, Some(cert), Some(key)) => {
            Some(TlsFiles { cert: PathBuf::from(cert), key: PathBuf::from(key) })
        }
        (None, None, None) => None,
        (None, Some(_), None) => return Err(in_config("tls_key", "is missing, but tls_cert is set")),
        (None, None, Some(_)) => return Err(in_config("tls_cert", "is missing, but tls_key is set")),
    };
    if args.tls_cert.is_some() && listen.iter().all(|listen| matches!(listen, ListenAddress::Socket)) {
        return Err(Problem::usage("--tls-cert is for network addresses, and no network address is given")
            .hint("give an address, as in --listen 0.0.0.0:7443; the local socket needs no TLS"));
    }
    let log = match (args.log_format, config.log_format) {
        (Some(Wanted::None), _) | (None, keys::ServeLogFormat::None) => None,
        (Some(Wanted::Text), _) | (None, keys::ServeLogFormat::Text) => Some(AccessLogFormat::Text),
        (Some(Wanted::Json), _) | (None, keys::ServeLogFormat::Json) => Some(AccessLogFormat::Json),
    };
    let allow_hosts =
        if args.allow_host.is_empty() { config.allow_hosts.clone() } else { args.allow_host.clone() };
    Ok(ServeOptions {
        listen,
        tls,
        insecure_http: args.insecure_http || config.insecure_http,
        allow_hosts,
        trusted_proxies: config.trusted_proxies.clone(),
        open_metrics: args.open_metrics || config.open_metrics,
        log,
        inherited: args.inherit.clone(),
        again: std::env::args_os().collect(),
    })
}

fn in_config(key: &str, why: &str) -> Problem {
    Problem::usage(format!("`{key}` in [serve] of the config: {why}"))
        .hint(format!("`berth config --explain serve.{key}` explains it"))
}

/// Records where browsers find the gateway. Returns the addresses for browsers if this call added the first of them.
fn write_down(
    ctx: &CommandContext,
    address: &str,
    names: &[String],
    urls: &mut Vec<String>,
) -> Result<Option<Vec<String>>, Problem> {
    let is_first = urls.is_empty();
    if address.starts_with("http://") || address.starts_with("https://") {
        urls.extend(gateway_urls::reachable_urls(address, names));
    }
    gateway_urls::write_urls(&ctx.home, urls)?;
    Ok((is_first && !urls.is_empty()).then(|| urls.clone()))
}

/// Prints a link to this terminal, with which its user can log in.
fn invite(ctx: &CommandContext, bases: &[String]) -> Result<(), Problem> {
    let params =
        TokenParams { name: None, scope: AccessScope::Control, sessions: None, life: Some(LINK_LIFE) };
    let maker = TokenMaker { place: &ctx.place, pass: None };
    let link = TokenStore::open(&ctx.home)?.mint(TokenKind::Link, &params, maker)?;
    let words = ["log in once, within 10 minutes", "or, if the browser does not find that name"];
    let lines: String = bases
        .iter()
        .zip(words)
        .map(|(base, words)| format!("{words}: {}\n", gateway_urls::login_url(base, &link.secret)))
        .collect();
    print::one_time_result(&lines, || super::token::take_back(ctx, &link.token))
}
