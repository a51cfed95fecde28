//! Processes: spawned, refused, found through ports and names.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use malleus::mpi::process::{Port, PublishedName};
use malleus::mpi::{Environment, Info, Intercommunicator, Operation, SpawnCommand};

use super::collectives::refused_argument;
use super::{cores, expect};
use crate::harness::{Case, Mpich, Outcome, Run, mpiexec};

pub fn cases() -> Vec<Case> {
    vec![
        Case::ranks("spawn_with_arguments", &[1, 2], with_arguments).needs_spawn(),
        Case::ranks("spawn_many_times", &[1, 2], many_times).needs_spawn(),
        Case::ranks("spawn_multiple", &[1, 2], multiple).needs_spawn(),
        Case::ranks("spawn_found_by_name", &[1], by_name).needs_spawn(),
        Case::ranks("spawn_from_a_part", &[2], from_a_part).needs_spawn(),
        Case::ranks("spawn_refused", &[1, 3], refused).needs_spawn(),
        Case::ranks("ports", &[2, 3], ports).skip_on(without_ports),
        Case::ranks("ports_refused", &[2], ports_refused).skip_on(without_ports),
        Case::ranks("worker_that_publishes", &[], publishes),
        Case::command("published_name", published_name).skip_on(without_ports),
        Case::ranks("published_without_a_server", &[1], without_a_server).skip_on(without_ports),
    ]
}

fn without_ports(mpich: &Mpich) -> Option<&'static str> {
    (mpich.netmod == "ucx").then_some("MPICH 4.0 to 5.0 with ucx has no ports")
}

fn this_program() -> Result<String, Box<dyn std::error::Error>> {
    Ok(std::env::current_exe()?
        .to_str()
        .ok_or("a path that is not text")?
        .to_owned())
}

/// What has to reach a spawned process as it is.
fn arguments() -> Vec<String> {
    let mut arguments = [
        "plain",
        "two words",
        " around ",
        "quote\"d",
        "it's",
        "a=b",
        "$HOME",
        "ö ✓",
        "-n",
        "tab\there",
    ]
    .map(str::to_owned)
    .to_vec();
    arguments.extend(["back\\slash", "\\", "\\\\", "end\\"].map(str::to_owned));
    arguments.push("long".repeat(10_000));
    arguments
}

/// What the parents, who send first, and their children do together: count themselves.
fn meet(between: Intercommunicator, sends: bool) -> Outcome {
    meet_as(between, sends, !sends)
}

fn meet_as(between: Intercommunicator, sends: bool, high: bool) -> Outcome {
    between.meet(sends)?;
    let expected = (between.size() + between.remote_size()) as u64;
    let merged = between.merge(high)?;
    between.disconnect()?;
    merged
        .environment()
        .set_heavy_yield(merged.size() > cores())?;
    let mut count = [1_u64];
    merged.all_reduce(&mut count, Operation::Sum)?;
    merged.disconnect()?;
    expect("together", count[0], expected)
}

fn with_arguments(environment: &Environment) -> Outcome {
    if let Some(parent) = environment.parent()? {
        expect("a second parent", environment.parent()?.is_none(), true)?;
        expect("arguments", std::env::args().skip(1).collect(), arguments())?;
        expect("a world of their own", environment.world().size(), 2)?;
        return meet(parent, false);
    }
    let world = environment.world();
    let program = this_program()?;
    for root in 0..world.size() {
        // What the others say does not count.
        let is_root = world.rank() == root;
        let command = SpawnCommand {
            program: if is_root { &program } else { "" },
            arguments: if is_root { &arguments() } else { &[] },
            processes: if is_root { 2 } else { 0 },
            info: None,
        };
        let spawned = world.spawn_with_codes(&command, root)?;
        expect("one code for each, everywhere", spawned.processes.len(), 2)?;
        let all_started = spawned.processes.iter().all(Result::is_ok);
        expect("each was started", all_started, true)?;
        meet(spawned.children, true)?;
    }
    Ok(())
}

fn many_times(environment: &Environment) -> Outcome {
    if let Some(parent) = environment.parent()? {
        return meet(parent, false);
    }
    let world = environment.world();
    let program = this_program()?;
    let command = SpawnCommand {
        program: &program,
        arguments: &[],
        processes: 1,
        info: None,
    };
    for round in 0..8 {
        let children = world.spawn(&command, round % world.size())?;
        meet_as(children, true, round % 2 == 1)?;
    }
    // Several at the same time.
    let several = [world.spawn(&command, 0)?, world.spawn(&command, 0)?];
    several
        .into_iter()
        .try_for_each(|children| meet(children, true))
}

fn multiple(environment: &Environment) -> Outcome {
    if let Some(parent) = environment.parent()? {
        let world = environment.world();
        let expected = if world.rank() < 1 { "first" } else { "second" };
        expect(
            "argument",
            std::env::args().nth(1),
            Some(expected.to_owned()),
        )?;
        expect("one world for both", world.size(), 3)?;
        return meet(parent, false);
    }
    let world = environment.world();
    let program = this_program()?;
    let (first, second) = (["first".to_owned()], ["second".to_owned()]);
    let command = |arguments, processes| SpawnCommand {
        program: &program,
        arguments,
        processes,
        info: None,
    };
    let root = world.size() - 1;
    let commands = [command(&first, 1), command(&second, 2)];
    let commands = if world.rank() == root {
        &commands[..]
    } else {
        &[]
    };
    let spawned = world.spawn_multiple(commands, root)?;
    expect("one code for each, everywhere", spawned.processes.len(), 3)?;
    meet(spawned.children, true)?;
    let nothing = world.spawn_multiple(&[], root);
    expect("no command", refused_argument(nothing), Some("commands"))?;
    let missing = SpawnCommand {
        program: "/no/such/program",
        ..command(&second, 1)
    };
    let half = world.spawn_multiple(&[command(&first, 1), missing], root);
    expect(
        "one that is missing",
        refused_argument(half),
        Some("program"),
    )
}

/// By the folder in the info key `path`, by `wdir`, and by `PATH`.
fn by_name(environment: &Environment) -> Outcome {
    if let Some(parent) = environment.parent()? {
        if let Some(folder) = std::env::args().nth(1) {
            let here = std::env::current_dir()?.canonicalize()?;
            expect("folder", here, fs::canonicalize(folder)?)?;
        }
        return meet(parent, false);
    }
    let world = environment.world();
    let program = std::env::current_exe()?;
    let folder = tempfile::tempdir()?;
    let name = "malleus-test-program";
    std::os::unix::fs::symlink(program, folder.path().join(name))?;
    let folder = folder.path().to_str().ok_or("a path that is not text")?;
    let arguments = [folder.to_owned()];
    let relative = format!("./{name}");
    let mut command = SpawnCommand {
        program: name,
        arguments: &[],
        processes: 1,
        info: None,
    };
    let unknown = world.spawn(&command, 0);
    expect("not in PATH", refused_argument(unknown), Some("program"))?;
    let mut path = Info::new(environment)?;
    path.set("path", folder)?;
    command.info = Some(&path);
    meet(world.spawn(&command, 0)?, true)?;
    let mut wdir = Info::new(environment)?;
    wdir.set("wdir", folder)?;
    command = SpawnCommand {
        program: &relative,
        arguments: &arguments,
        processes: 1,
        info: Some(&wdir),
    };
    meet(world.spawn(&command, 0)?, true)?;
    // A relative path counts from where this process is, wherever mpiexec was started.
    let before = std::env::current_dir()?;
    std::env::set_current_dir(folder)?;
    command = SpawnCommand {
        program: &relative,
        arguments: &[],
        processes: 1,
        info: None,
    };
    let children = world.spawn(&command, 0);
    std::env::set_current_dir(before)?;
    meet(children?, true)
}

fn from_a_part(environment: &Environment) -> Outcome {
    if let Some(parent) = environment.parent()? {
        return meet(parent, false);
    }
    let program = this_program()?;
    let command = SpawnCommand {
        program: &program,
        arguments: &[],
        processes: 1,
        info: None,
    };
    let alone = environment.self_communicator();
    for rank in 0..environment.world().size() {
        if rank == environment.world().rank() {
            meet(alone.spawn(&command, 0)?, true)?;
        }
        environment.world().barrier()?;
    }
    Ok(())
}

fn refused(environment: &Environment) -> Outcome {
    let world = environment.world();
    let folder = tempfile::tempdir()?;
    let at = |name: &str| {
        folder
            .path()
            .join(name)
            .to_str()
            .map(str::to_owned)
            .unwrap_or_default()
    };
    fs::write(at("data"), "no program")?;
    fs::write(at("script"), "#!/no/such/interpreter\n")?;
    fs::set_permissions(at("script"), fs::Permissions::from_mode(0o755))?;
    let mut nowhere = Info::new(environment)?;
    nowhere.set("wdir", &at("missing"))?;
    let program = this_program()?;
    // A name in the folder it starts in is not found: the folder is not in PATH.
    let mut elsewhere_only = Info::new(environment)?;
    let (parent, name) = program
        .rsplit_once('/')
        .ok_or("a program without a folder")?;
    elsewhere_only.set("wdir", parent)?;
    let mut two_lines = Info::new(environment)?;
    two_lines.set("hosts", "a\nb")?;
    let text = |text: &str| vec![text.to_owned()];
    let command = |program, arguments, processes, info| SpawnCommand {
        program,
        arguments,
        processes,
        info,
    };
    let (data, script, inside) = (at("data"), at("script"), at(""));
    let (zero, line, empty, long) = (
        text("a\0b"),
        text("a\nb"),
        text(""),
        text(&"x".repeat(100_000)),
    );
    let root = world.size() - 1;
    for (command, argument) in [
        (command("/no/such/program", &[], 1, None), "program"),
        (command("no-such-program-anywhere", &[], 1, None), "program"),
        (command("./no-such-program-here", &[], 1, None), "program"),
        (command("", &[], 1, None), "program"),
        (command("a\0b", &[], 1, None), "program"),
        (command("a\nb", &[], 1, None), "program"),
        (command(&data, &[], 1, None), "program"),
        (command(&script, &[], 1, None), "program"),
        (command(&inside, &[], 1, None), "program"),
        (command(&program, &zero, 1, None), "arguments"),
        (command(&program, &line, 1, None), "arguments"),
        (command(&program, &empty, 1, None), "arguments"),
        (command(&program, &long, 1, None), "arguments"),
        (command(&program, &[], 0, None), "processes"),
        (command(&program, &[], usize::MAX, None), "processes"),
        (command(&program, &[], 1, Some(&nowhere)), "wdir"),
        (command(name, &[], 1, Some(&elsewhere_only)), "program"),
        (command(&program, &[], 1, Some(&two_lines)), "info"),
    ] {
        // Only the root knows, and all get the error.
        let elsewhere = SpawnCommand {
            program: &program,
            arguments: &[],
            processes: 1,
            info: None,
        };
        let said = if world.rank() == root {
            &command
        } else {
            &elsewhere
        };
        let result = world.spawn(said, root);
        expect(
            &format!("{command:?}"),
            refused_argument(result),
            Some(argument),
        )?;
    }
    let beyond = world.spawn(&command(&program, &[], 1, None), world.size());
    expect("a root beyond", refused_argument(beyond), Some("root"))?;
    world.barrier()?;
    Ok(())
}

/// The first rank connects, the others accept.
fn ports(environment: &Environment) -> Outcome {
    let world = environment.world();
    let connects = world.rank() == 0;
    let half = world
        .split(Some(usize::from(connects)), world.rank())?
        .ok_or("in one of them")?;
    for round in 0..3 {
        let port = (world.rank() == 1)
            .then(|| Port::open(environment, None))
            .transpose()?;
        let mut name = port
            .as_ref()
            .map(|port| port.name().as_bytes().to_vec())
            .unwrap_or_default();
        world.broadcast_bytes(&mut name, 1)?;
        let between = if connects {
            half.connect(std::str::from_utf8(&name)?, None, 0)?
        } else {
            half.accept(port.as_ref(), None, 0)?
        };
        let sizes = if connects {
            (1, world.size() - 1)
        } else {
            (world.size() - 1, 1)
        };
        expect("sizes", (between.size(), between.remote_size()), sizes)?;
        meet(between, connects)?;
        if round == 1 {
            port.map_or(Ok(()), Port::close)?;
        }
    }
    half.free()?;
    Ok(())
}

fn ports_refused(environment: &Environment) -> Outcome {
    let world = environment.world();
    let long = "x".repeat(100_000);
    for name in ["", "a\0b", &long] {
        // Only the root knows, and all get the error.
        let said = if world.rank() == 1 { name } else { "something" };
        let connected = world.connect(said, None, 1);
        expect(
            "a name that is no port's",
            refused_argument(connected),
            Some("port"),
        )?;
    }
    let garbage = world.connect("no port of that name", None, 0);
    expect("a name without a port", garbage.is_err(), true)?;
    expect(
        "no port",
        refused_argument(world.accept(None, None, 0)),
        Some("port"),
    )?;
    expect(
        "a root beyond",
        refused_argument(world.accept(None, None, 2)),
        Some("root"),
    )?;
    world.barrier()?;
    Ok(())
}

const SERVICE: &str = "malleus-test-service";

/// Two starts of `mpiexec` that know each other by the name of a service only.
fn published_name(run: &Run) -> Outcome {
    let server = NameServer::start()?;
    let start = |role: &str| {
        let mut command = mpiexec(2);
        command
            .args(["-nameserver", &server.address()])
            .arg(std::env::current_exe()?)
            .env("MALLEUS_TEST_CASE", "worker_that_publishes")
            .env(ROLE, role);
        run.finish(command)
    };
    let (served, asked) = std::thread::scope(|scope| {
        let served = scope.spawn(|| start("serves").map_err(|error| error.to_string()));
        let asked = start("asks").map_err(|error| error.to_string());
        (served.join(), asked)
    });
    for ended in [served.map_err(|_| "a thread panicked")??, asked?] {
        if !ended.status.success() {
            return Err(format!("{:?}: {}{}", ended.status, ended.stdout, ended.stderr).into());
        }
    }
    Ok(())
}

const ROLE: &str = "MALLEUS_TEST_ROLE";

/// Hydra's name server, for as long as the value lives.
struct NameServer {
    process: std::process::Child,
    port: u16,
}

impl NameServer {
    fn start() -> Result<Self, Box<dyn std::error::Error>> {
        // One that is free now.
        let port = std::net::TcpListener::bind(("127.0.0.1", 0))?
            .local_addr()?
            .port();
        let program = std::path::Path::new(malleus::MPIEXEC).with_file_name("hydra_nameserver");
        let process = std::process::Command::new(program)
            .args(["-port", &port.to_string()])
            .spawn()?;
        let server = Self { process, port };
        for _ in 0..100 {
            if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok(server);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err("the name server does not answer".into())
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn publishes(environment: &Environment) -> Outcome {
    let world = environment.world();
    if std::env::var(ROLE)? == "serves" {
        let port = (world.rank() == 0)
            .then(|| Port::open(environment, None))
            .transpose()?;
        let name = match &port {
            Some(port) => Some(PublishedName::publish(environment, SERVICE, port, None)?),
            None => None,
        };
        let between = world.accept(port.as_ref(), None, 0)?;
        expect("sizes", (between.size(), between.remote_size()), (2, 2))?;
        meet(between, true)?;
        name.map_or(Ok(()), PublishedName::unpublish)?;
        if world.rank() == 0 {
            let gone = PublishedName::look_up(environment, SERVICE, None);
            expect("it was taken back", gone.is_err(), true)?;
        }
        return Ok(());
    }
    let mut name = Vec::new();
    if world.rank() == 0 {
        let unknown = PublishedName::look_up(environment, "no-such-service", None);
        expect("an unknown service", unknown.is_err(), true)?;
        name = found_in_time(environment)?.into_bytes();
    }
    world.broadcast_bytes(&mut name, 0)?;
    meet(world.connect(std::str::from_utf8(&name)?, None, 0)?, false)
}

fn found_in_time(environment: &Environment) -> Result<String, Box<dyn std::error::Error>> {
    for _ in 0..200 {
        if let Ok(name) = PublishedName::look_up(environment, SERVICE, None) {
            return Ok(name);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Err("the service was never found".into())
}

/// Within one start of `mpiexec` no server is needed.
fn without_a_server(environment: &Environment) -> Outcome {
    let port = Port::open(environment, None)?;
    for bad in ["", "two words", "a\0b", "a\nb"] {
        let published = PublishedName::publish(environment, bad, &port, None);
        expect("a bad name", refused_argument(published), Some("service"))?;
        let found = PublishedName::look_up(environment, bad, None);
        expect("a bad name", refused_argument(found), Some("service"))?;
    }
    let published = PublishedName::publish(environment, SERVICE, &port, None);
    println!("{published:?}");
    let found = PublishedName::look_up(environment, SERVICE, None);
    println!("{found:?}");
    Ok(())
}
