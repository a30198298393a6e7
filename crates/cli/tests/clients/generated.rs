//! A client in Python and one in TypeScript.

use std::process::Command;

use crate::{described, lab, pointed, run, scripts, serve, tools};

#[test]
fn a_python_client_made_from_the_description_starts_sends_waits_reads_and_cancels() {
    let (lab, tools) = (lab(), tools());
    let description = described(&lab);
    let python = tools.join("python/bin");
    // Anything in the description it cannot make a client of is a failure, not a hole in the client.
    run(Command::new(python.join("openapi-python-client"))
        .args(["generate", "--meta", "none", "--fail-on-warning", "--config"])
        .arg(scripts().join("python.yml"))
        .arg("--path")
        .arg(description)
        .arg("--output-path")
        .arg(lab.dir().join("berth_client"))
        .current_dir(lab.dir()));
    let (gateway, token) = serve(&lab, "python");
    let mut drive = Command::new(python.join("python"));
    drive.arg(scripts().join("drive.py")).env("PYTHONPATH", lab.dir()).env("PYTHONDONTWRITEBYTECODE", "1");
    pointed(&mut drive, &lab, &gateway, &token);
    assert_eq!(run(&mut drive), "python: all well\n");
}

#[test]
fn a_typescript_client_made_from_the_description_compiles_strictly_and_does_the_same() {
    let (lab, tools) = (lab(), tools());
    let description = described(&lab);
    let (work, modules) = (lab.dir().join("ts"), tools.join("node/node_modules"));
    std::fs::create_dir(&work).expect("a directory");
    std::os::unix::fs::symlink(&modules, work.join("node_modules")).expect("a link");
    std::fs::write(work.join("package.json"), r#"{"private":true,"type":"module"}"#).expect("a file");
    std::fs::copy(scripts().join("drive.ts"), work.join("drive.ts")).expect("a copy");
    run(Command::new("node")
        .arg(modules.join("openapi-typescript/bin/cli.js"))
        .arg(description)
        .args(["--output", "berth.d.ts", "--default-non-nullable", "false"])
        .current_dir(&work));
    run(Command::new("node")
        .arg(modules.join("typescript/bin/tsc"))
        .args(["--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess", "--skipLibCheck"])
        .args(["--target", "es2022", "--lib", "es2022,dom", "--module", "nodenext", "drive.ts"])
        .current_dir(&work));
    let (gateway, token) = serve(&lab, "typescript");
    let mut drive = Command::new("node");
    drive.arg("drive.js").current_dir(&work);
    pointed(&mut drive, &lab, &gateway, &token);
    assert_eq!(run(&mut drive), "typescript: all well\n");
}
