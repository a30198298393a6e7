//! `berth serve`: the gateway.

use std::path::PathBuf;

use berth_api::{Code, Problem, Scope, TokenKind};
use berth_gateway::{Listen, LogFormat, Options, TlsFiles};
use berth_verbs::links;
use berth_verbs::tokens::{LINK_LIFE, Maker, TokenWish, Tokens};
use serde_json::json;

use crate::args::Serve;
use crate::args::serve::LogFormat as Wanted;
use crate::config::{Config, serve as keys};
use crate::ctx::Ctx;
use crate::print;

pub(crate) fn run(ctx: &Ctx, args: &Serve) -> Result<u8, Problem> {
    let config = Config::load()?.serve;
    let options = options(args, &config)?;
    let is_json = args.json;
    let allow_hosts = options.allow_hosts.clone();
    if options.insecure_http {
        print::note("without TLS, others on the network can read tokens and all messages");
    }
    let is_only_local = options.listen.iter().all(|listen| matches!(listen, Listen::Socket));
    if is_only_local && !is_json && print::is_terminal() {
        print::note("for a browser, too: `berth serve --listen :7070`");
    }
    // A gateway inside of a session stays readable: attribution needs its environment and its open files.
    if ctx.parent.is_none() && ctx.unseen.is_none() {
        let _ = berth_host::memory::close_to_others();
    }
    let mut urls = Vec::new();
    berth_gateway::serve(ctx.home.clone(), options, |address| {
        let line = if is_json {
            format!("{}\n", json!({"listening": address, "pid": std::process::id()}))
        } else {
            format!("listening on {address}\n")
        };
        // Written down before it is said: whoever hears it may ask for a link at once.
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

fn options(args: &Serve, config: &keys::ServeKeys) -> Result<Options, Problem> {
    let mut listen = vec![Listen::Socket];
    if args.listen.is_empty() {
        for address in &config.listen {
            let address = address.parse().map_err(|why: String| in_config("listen", &why))?;
            listen.push(Listen::Tcp(address));
        }
    }
    listen.extend(args.listen.iter().cloned().map(Listen::Tcp));
    let tls = match (args.tls_cert.clone().zip(args.tls_key.clone()), &config.tls_cert, &config.tls_key) {
        (Some((cert, key)), _, _) => Some(TlsFiles { cert, key }),
        (None, Some(cert), Some(key)) => {
            Some(TlsFiles { cert: PathBuf::from(cert), key: PathBuf::from(key) })
        }
        (None, None, None) => None,
        (None, Some(_), None) => return Err(in_config("tls_key", "is missing, and tls_cert is there")),
        (None, None, Some(_)) => return Err(in_config("tls_cert", "is missing, and tls_key is there")),
    };
    if args.tls_cert.is_some() && listen.iter().all(|listen| matches!(listen, Listen::Socket)) {
        return Err(Problem::new(
            Code::Usage,
            "--tls-cert is for network addresses, and there is none to listen on",
        )
        .hint("say where, as in --listen 0.0.0.0:7443; the local socket needs no TLS"));
    }
    let log = match (args.log_format, config.log_format) {
        (Some(Wanted::None), _) | (None, keys::LogFormat::None) => None,
        (Some(Wanted::Text), _) | (None, keys::LogFormat::Text) => Some(LogFormat::Text),
        (Some(Wanted::Json), _) | (None, keys::LogFormat::Json) => Some(LogFormat::Json),
    };
    let allow_hosts =
        if args.allow_host.is_empty() { config.allow_hosts.clone() } else { args.allow_host.clone() };
    Ok(Options {
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
    Problem::new(Code::Usage, format!("`{key}` in [serve] of the config: {why}"))
        .hint(format!("`berth config --explain serve.{key}` explains it"))
}

/// Records where browsers find the gateway. Returns the addresses for browsers if this call added the first of them.
fn write_down(
    ctx: &Ctx,
    address: &str,
    names: &[String],
    urls: &mut Vec<String>,
) -> Result<Option<Vec<String>>, Problem> {
    let is_first = urls.is_empty();
    if address.starts_with("http://") || address.starts_with("https://") {
        urls.extend(links::reachable(address, names));
    }
    links::announce(&ctx.home, urls)?;
    Ok((is_first && !urls.is_empty()).then(|| urls.clone()))
}

/// Lets whoever looks at this terminal log in.
fn invite(ctx: &Ctx, bases: &[String]) -> Result<(), Problem> {
    let wish = TokenWish { name: None, scope: Scope::Control, sessions: None, life: Some(LINK_LIFE) };
    let maker = Maker { place: &ctx.place, pass: None };
    let link = Tokens::open(&ctx.home)?.mint(TokenKind::Link, &wish, maker)?;
    let words = ["log in once, within 10 minutes", "or, if the browser does not find that name"];
    let lines: String = bases
        .iter()
        .zip(words)
        .map(|(base, words)| format!("{words}: {}\n", links::url(base, &link.secret)))
        .collect();
    print::made(&lines, || super::token::take_back(ctx, &link.token))
}
