//! Data that is no array of numbers: records, and elements that the application packs.

use malleus::job::{
    Array, Checkpoint, ConstantArray, ConstantPacked, Error as JobError, Event, Job, Options,
    Outcome as Switched, Pack, Packed, PackedElements, Replicated,
};
use malleus::mpi::{Datatype, Environment, Operation, Record, TypeMap};
use malleus::redistribute::Variant;

use super::{is_root, resizes, script};
use crate::cases::expect;
use crate::harness::{Case, Outcome, Run};

malleus::record! {
    /// With an extent that is no power of two.
    #[derive(Debug, PartialEq)]
    struct Particle {
        position: [f64; 3],
        id: u64,
        kind: u16,
        flags: [u8; 6],
    }

    /// Smaller than its neighbor in the arena likes it.
    #[derive(Debug, PartialEq)]
    struct Pixel {
        red: u8,
        green: u8,
        blue: u8,
    }
}

macro_rules! each_variant {
    ($($name:literal $variant:literal $lean:literal),* $(,)?) => {
        vec![$(
            Case::ranks($name, &[1, 3], |environment| forms(environment, $variant, $lean))
                .needs_spawn()
        ),*]
    };
}

pub fn cases() -> Vec<Case> {
    let mut cases = each_variant![
        "job_forms_col" "col" false,
        "job_forms_rma1" "rma1" false,
        "job_forms_rma2" "rma2" false,
        "job_forms_rma2_lean" "rma2" true,
        "job_forms_p2p" "p2p" false,
        "job_forms_col_nb" "col-nb" false,
        "job_forms_rma1_t" "rma1-t" false,
        "job_forms_rma2_wt" "rma2-wt" false,
        "job_forms_rma2_paced" "rma2-paced" false,
    ];
    cases.extend([
        Case::ranks(
            "job_packed_few_elements",
            &[1, 3],
            fewer_elements_than_ranks,
        )
        .needs_spawn(),
        Case::ranks("job_forms_mismatch", &[1], other_forms).needs_spawn(),
        Case::ranks("worker_that_cannot_unpack", &[], worker_that_cannot_unpack),
        Case::command("a_failure_to_unpack_is_told", a_failure_to_unpack),
        Case::on_each("derived_datatypes", &[1], |communicator| {
            datatypes(&communicator.environment())
        }),
    ]);
    cases
}

/// A list of numbers for each element, which grows and shrinks as the job goes on.
#[derive(Debug, Default, PartialEq)]
struct Lists(Vec<Vec<u32>>);

impl Lists {
    fn of(range: std::ops::Range<u64>, steps: u64) -> Self {
        Self(range.map(|index| list(index, steps)).collect())
    }
}

/// That of an element after so many steps: up to 40 numbers, or none.
fn list(index: u64, steps: u64) -> Vec<u32> {
    let length = (index * 7 + steps * 3) % 41;
    (0..length)
        .map(|number| (index * 1000 + number * 31 + steps) as u32)
        .collect()
}

impl Pack for Lists {
    fn pack(&self, local: usize, bytes: &mut Vec<u8>) {
        let numbers = self.0[local].iter();
        bytes.extend(numbers.flat_map(|number| number.to_le_bytes()));
    }

    fn unpack(&mut self, elements: PackedElements<'_>) -> Result<(), String> {
        let range = elements.range();
        if elements.len() as u64 != range.end - range.start {
            return Err(format!("{} elements in {range:?}", elements.len()));
        }
        let numbers = |bytes: &[u8]| {
            let (words, rest) = bytes.as_chunks();
            rest.is_empty()
                .then(|| words.iter().copied().map(u32::from_le_bytes).collect())
        };
        let lists: Option<_> = elements.iter().map(numbers).collect();
        self.0 = lists.ok_or("half a number")?;
        Ok(())
    }
}

fn particle(index: u64, steps: u64) -> Particle {
    Particle {
        position: [index as f64, steps as f64, -1.5],
        id: index,
        kind: (index % 5) as u16,
        flags: [steps as u8; 6],
    }
}

fn pixel(index: u64) -> Pixel {
    Pixel {
        red: index as u8,
        green: (index >> 8) as u8,
        blue: 255 - index as u8,
    }
}

/// An application with one of each form, constant and variable.
struct Application {
    job: Job,
    particles: Array<Particle>,
    pixels: ConstantArray<Pixel>,
    lists: Packed<Lists>,
    mesh: ConstantPacked<Lists>,
    weighted: Packed<Lists>,
    steps: Replicated<[u64; 2]>,
}

const PARTICLES: u64 = 1009;
const PIXELS: u64 = 4099;
const LISTS: u64 = 211;
/// What the mesh's lists are those of.
const MESH: u64 = 17;

impl Application {
    fn start(environment: &Environment, options: Options, lists: u64) -> Result<Self, JobError> {
        let mut job = Job::start(environment, options)?;
        let (rank, size) = (job.rank(), job.size());
        let particles = job.array("particles").block(PARTICLES)?;
        let mut pixels = job.array("pixels").constant().block(PIXELS)?;
        let first = job.is_first_start();
        if first {
            pixels.initialize(|range, pixels| {
                range
                    .zip(pixels)
                    .for_each(|(index, place)| *place = pixel(index));
            })?;
        }
        let block = malleus::partition::Partition::block(lists, size).range(rank);
        let of = |range: std::ops::Range<u64>, steps| {
            // What a process that joined says is replaced.
            if first {
                Lists::of(range, steps)
            } else {
                Lists::default()
            }
        };
        let variable = job.packed("lists").block(lists, of(block.clone(), 0))?;
        let mesh = job.packed("mesh").constant_block(lists, of(block, MESH))?;
        // The first rank has nothing.
        let shares = (size as u64 - 1).max(1);
        let cuts = (0..=size as u64).map(|cut| lists * cut.saturating_sub(1) / shares);
        let mut cuts: Vec<u64> = cuts.collect();
        cuts[size] = lists;
        let range = cuts[rank]..cuts[rank + 1];
        let weighted = job.packed("weighted").cuts(cuts, of(range, 0))?;
        let steps = job.replicated("steps", [0; 2])?;
        Ok(Self {
            job,
            particles,
            pixels,
            lists: variable,
            mesh,
            weighted,
            steps,
        })
    }

    fn step(&mut self) {
        let [steps, twice] = *self.steps;
        *self.steps = [steps + 1, twice + 2];
        let steps = steps + 1;
        let range = self.particles.range();
        range
            .zip(self.particles.iter_mut())
            .for_each(|(index, place)| *place = particle(index, steps));
        for lists in [&mut self.lists, &mut self.weighted] {
            let range = lists.range();
            **lists = Lists::of(range, steps);
        }
    }

    fn check(&self, lists: u64) -> Outcome {
        let steps = self.job.iteration();
        expect("steps", *self.steps, [steps, 2 * steps])?;
        if steps > 0 {
            for (index, found) in self.particles.range().zip(self.particles.iter()) {
                expect("particle", *found, particle(index, steps))?;
            }
        }
        for (index, found) in self.pixels.range().zip(self.pixels.iter()) {
            expect("pixel", *found, pixel(index))?;
        }
        let mut held = [0_u64; 3];
        for (place, (found, range, steps)) in held.iter_mut().zip([
            (&*self.lists, self.lists.range(), steps),
            (&*self.weighted, self.weighted.range(), steps),
            (&*self.mesh, self.mesh.range(), MESH),
        ]) {
            *place = range.end - range.start;
            expect("lists", found, &Lists::of(range, steps))?;
        }
        let communicator = self.job.communicator();
        communicator.all_reduce(&mut held, Operation::Sum)?;
        expect("elements of all ranks", held, [lists; 3])
    }

    /// Passes a checkpoint; false on a rank that has left.
    fn checkpoint(&mut self) -> Result<bool, JobError> {
        if let Checkpoint::Switch(switch) = self.job.checkpoint()? {
            let outcome = switch.commit((
                &mut self.steps,
                &mut self.weighted,
                &mut self.mesh,
                &mut self.lists,
                &mut self.pixels,
                &mut self.particles,
            ))?;
            return Ok(matches!(outcome, Switched::Member(_)));
        }
        Ok(true)
    }

    /// Goes on until rank 0 has seen so many resizes. What a rank has when it leaves is nothing.
    fn run(&mut self, count: usize, lists: u64) -> Outcome {
        loop {
            self.check(lists)?;
            let mut seen = [resizes(self.job.events()).len() as u64];
            self.job
                .communicator()
                .all_reduce(&mut seen, Operation::Maximum)?;
            if seen[0] >= count as u64 {
                return Ok(());
            }
            self.step();
            if !self.checkpoint()? {
                expect("lists left", &*self.lists, &Lists::default())?;
                return expect("mesh left", &*self.mesh, &Lists::default());
            }
        }
    }
}

fn run(environment: &Environment, options: Options, lists: u64) -> Outcome {
    let options = options.manager(script("1:2 2:4 3:1 4:3 5:2")?).verify(true);
    let mut application = Application::start(environment, options, lists)?;
    let root = is_root(environment, &application.job);
    application.run(5, lists)?;
    let events = application.job.end()?;
    if root {
        let sizes: Vec<usize> = resizes(&events).iter().map(|resize| resize.to).collect();
        expect("sizes", sizes, vec![2, 4, 1, 3, 2])?;
        let refused = events
            .iter()
            .filter(|event| matches!(event, Event::Refused { .. }));
        expect("refused", refused.count(), 0)?;
    }
    Ok(())
}

fn forms(environment: &Environment, variant: &str, lean: bool) -> Outcome {
    let variant: Variant = variant.parse()?;
    let options = Options::default().variant(variant).lean(lean);
    run(environment, options, LISTS)
}

fn fewer_elements_than_ranks(environment: &Environment) -> Outcome {
    run(environment, Options::default(), 1)?;
    Ok(())
}

/// A process that joins finds out that it registers something else.
fn other_forms(environment: &Environment) -> Outcome {
    let mut job = Job::start(environment, Options::default().manager(script("1:2")?))?;
    if !job.is_first_start() {
        let told = |result: Result<(), JobError>| result.unwrap_err().to_string();
        let other = job.array::<[f64; 6]>("particles").block(PARTICLES);
        expect(
            "record",
            told(other.map(drop)),
            "\"particles\" is registered with element type record of 40 bytes (3 f64 at 0, u64 at 24, u16 at 32, 6 u8 \
             at 34), here it is 6 f64"
                .to_owned(),
        )?;
    }
    // What was refused is gone on the process that joined: its part in the job is over.
    let mut particles = if job.is_first_start() {
        Some(job.array::<Particle>("particles").block(PARTICLES)?)
    } else {
        None
    };
    if let (Some(particles), Checkpoint::Switch(switch)) = (&mut particles, job.checkpoint()?) {
        let _ = switch.commit((particles,))?;
    }
    job.end()?;
    Ok(())
}

/// Bytes that are not understood on one rank.
struct Broken(bool);

impl Pack for Broken {
    fn pack(&self, local: usize, bytes: &mut Vec<u8>) {
        bytes.push(local as u8);
    }

    fn unpack(&mut self, elements: PackedElements<'_>) -> Result<(), String> {
        if self.0 && !elements.is_empty() {
            return Err("it is broken".to_owned());
        }
        Ok(())
    }
}

fn worker_that_cannot_unpack(environment: &Environment) -> Outcome {
    let mut job = Job::start(environment, Options::default().manager(script("1:1")?))?;
    let root = job.rank() == 0;
    let mut broken = job.packed("broken").block(10, Broken(root))?;
    let Checkpoint::Switch(switch) = job.checkpoint()? else {
        return Err("no switch".into());
    };
    match switch.commit((&mut broken,)) {
        Err(error @ JobError::Unpack { .. }) => {
            let whole = error.leaves_job_whole();
            // The other rank waits for this one: there is no other way out.
            environment.abort(&format!("{error}; whole: {whole}"), 3)
        }
        other => Err(format!("{other:?}").into()),
    }
}

fn a_failure_to_unpack(run: &Run) -> Outcome {
    let ended = run.worker("worker_that_cannot_unpack", 2)?;
    expect("exit code", ended.status.code(), Some(3))?;
    let text = "\"broken\" can't be unpacked: it is broken; whole: false";
    expect(&ended.stderr, ended.stderr.contains(text), true)
}

/// MPI finds the sizes that the type map says.
fn datatypes(environment: &Environment) -> Outcome {
    for map in [
        Particle::type_map(),
        Pixel::type_map(),
        <[Pixel; 5]>::type_map(),
        f32::type_map(),
        TypeMap::record([(4, i16::type_map()), (8, Particle::type_map())], 64),
    ] {
        let datatype = Datatype::new(environment, &map)?;
        let found = datatype.type_map()?;
        let told = map.to_string();
        expect(
            &told,
            (found.size(), found.extent()),
            (map.size(), map.extent()),
        )?;
        let again = Datatype::new(environment, &found);
        expect(&told, again.is_err(), true)?;
    }
    Ok(())
}
