//! What layers keep of past positions: keys and values, or a recurrent state.

use qsf_format::{AttentionShape, ModelConfig, PositionConfig};

use super::kv_keep::{KvKeep, KvPolicy};
use super::recurrent_state::{RecurrentState, no_way_back};
use crate::error::{Result, RuntimeError};
use crate::memory;
use qsf_cpu::{Attention, Cpu, KvLayer, KvShape, KvTypes, Slabs, zeros};

/// How keys and values are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KvOptions {
    /// Their types.
    pub types: KvTypes,
    /// Whether layers with a sliding window keep all positions, as others do: then any can be taken back.
    pub whole: bool,
    /// Which positions layers without a sliding window keep; all without it.
    pub keep: Option<KvKeep>,
}

impl From<KvTypes> for KvOptions {
    fn from(types: KvTypes) -> KvOptions {
        KvOptions { types, ..KvOptions::default() }
    }
}

/// Keys and values of every layer, or of one at a time. Memory is taken as positions come, 256 at a time. A layer with a
/// sliding window keeps as many positions as a window and a step have, a recurrent one its state.
pub struct KvCache {
    pub(super) capacity: usize,
    pub(super) len: usize,
    /// Behind the last position that was ever stored since the cache was empty.
    pub(super) stored: usize,
    pub(super) keep: Option<KvKeep>,
    /// Positions that layers have which let some go.
    pub(super) used: usize,
    /// Positions that there were when some were let go last.
    pub(super) let_go: usize,
    /// The position that recurrent layers can return to.
    pub(super) marked: Option<usize>,
    /// The layer that the first is of.
    first: usize,
    pub(super) layers: Vec<Layer>,
    /// Memory for keys and values.
    pub(super) slabs: Slabs,
    /// For each layer, where its keys and values are among these.
    slots: Vec<usize>,
}

/// Which layers a cache is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CacheLayers {
    /// Each has a place of its own.
    All,
    /// One at a time: they share a place.
    One,
}

pub(super) struct Layer {
    pub kv: KvLayer,
    /// Where the layer is recurrent.
    pub recurrent: Option<RecurrentState>,
    /// Whether it is so in place of attention: it stores no position.
    pub stores_none: bool,
    /// Positions that queries see.
    window: usize,
    /// Whether it lets positions go.
    pub lets_go: bool,
    /// Key/value heads x positions: the attention that each has got, where that decides.
    pub mass: Vec<f32>,
}

impl KvCache {
    /// Room for `capacity` positions, of which at most `batch` come in one step.
    ///
    /// # Errors
    /// When the system would not give as much memory as it takes when it is full, or the model's positions cannot be let go as
    /// `options` say.
    pub fn new(config: &ModelConfig, capacity: usize, batch: usize, options: KvOptions) -> Result<KvCache> {
        KvCache::for_layers(config, CacheLayers::All, capacity, batch, options)
    }

    /// [`KvCache::new`] for all layers, or for one at a time.
    pub(super) fn for_layers(
        config: &ModelConfig,
        layers: CacheLayers,
        capacity: usize,
        batch: usize,
        options: KvOptions,
    ) -> Result<KvCache> {
        if let Some(keep) = options.keep {
            check_keep(config, keep)?;
        }
        let (own, slots): (Vec<u32>, Vec<usize>) = match layers {
            CacheLayers::All => {
                let own: Vec<u32> =
                    (0..config.layers).filter(|&index| config.kv_source(index) == index).collect();
                let slot = |index| own.binary_search(&config.kv_source(index)).unwrap_or(0);
                let slots = (0..config.layers).map(slot).collect();
                (own, slots)
            }
            CacheLayers::One => (vec![0], vec![0]),
        };
        let plan = |&index: &u32| match layers {
            CacheLayers::All => Plan::new(config, index, capacity, batch, options),
            CacheLayers::One => Plan::for_any(config, capacity, options),
        };
        let plans: Vec<Plan> = own.iter().map(plan).collect();
        let bytes = plans.iter().map(|plan| plan.bytes(config)).fold(0, u64::saturating_add);
        memory::ask(bytes, || format!("key/value cache of {capacity} positions"))?;
        let layer = |(index, Plan { kv, mass, recurrent })| {
            let window = config.window(index);
            Ok(Layer {
                kv,
                recurrent: if recurrent { RecurrentState::new(config)? } else { None },
                window: window.map_or(usize::MAX, |size| size as usize),
                stores_none: recurrent && !config.has_attention(index),
                lets_go: options.keep.is_some() && window.is_none() && config.has_attention(index),
                mass: zeros(mass, "attention of positions")?,
            })
        };
        let layers = own.iter().copied().zip(plans).map(layer).collect::<Result<_>>()?;
        Ok(KvCache {
            capacity,
            len: 0,
            stored: 0,
            keep: options.keep,
            used: 0,
            let_go: 0,
            marked: None,
            first: 0,
            layers,
            slabs: Slabs::default(),
            slots,
        })
    }

    /// Bytes that the cache of a model takes when it is full, without what the allocator adds.
    pub fn bytes(config: &ModelConfig, context: usize, batch: usize, options: KvOptions) -> u64 {
        let own = (0..config.layers).filter(|&index| config.kv_source(index) == index);
        let plans = own.map(|index| Plan::new(config, index, context, batch, options));
        plans.map(|plan| plan.bytes(config)).fold(0, u64::saturating_add)
    }

    /// Positions that have been stored, whether they are still kept or not.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Positions that fit.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Memory that keys and values have, all that was ever taken.
    pub const fn slabs(&self) -> &Slabs {
        &self.slabs
    }

    /// Takes memory for `positions` more, and lets others go where they are too many.
    ///
    /// # Errors
    /// When there is not enough.
    pub fn reserve(&mut self, positions: usize) -> Result<()> {
        if let Some(keep) = self.keep {
            let most = keep.positions.saturating_add(positions.max(KvKeep::SLACK));
            if self.used + positions > most {
                self.let_go(keep);
            }
        }
        let (len, used) = (self.len + positions, self.used + positions);
        let needed = |layer: &Layer| if layer.lets_go { used } else { len };
        self.recurrent_states().for_each(RecurrentState::begin);
        let Self { layers, slabs, .. } = self;
        Ok(layers.iter_mut().try_for_each(|layer| layer.kv.reserve(slabs, needed(layer)))?)
    }

    fn recurrent_states(&mut self) -> impl Iterator<Item = &mut RecurrentState> {
        self.layers.iter_mut().filter_map(|layer| layer.recurrent.as_mut())
    }

    fn let_go(&mut self, keep: KvKeep) {
        let used = self.used;
        for layer in self.layers.iter_mut().filter(|layer| layer.lets_go) {
            let positions = layer.mass.len() / layer.kv.kv_heads();
            for head in 0..layer.kv.kv_heads() {
                let mass = &mut layer.mass[head * positions..][..positions];
                let chosen = keep.chosen(used, mass);
                layer.kv.keep(head, &chosen);
                if !mass.is_empty() {
                    chosen.iter().enumerate().for_each(|(to, from)| mass[to] = mass[*from]);
                }
            }
        }
        (self.used, self.let_go) = (keep.positions.min(used), self.len);
    }

    /// Makes sure that the present position can be gone back to later, until another one is marked. Recurrent layers copy their
    /// state for that.
    ///
    /// # Errors
    /// When there is no memory for the copies.
    pub fn mark(&mut self) -> Result<()> {
        self.marked = None;
        self.recurrent_states().try_for_each(RecurrentState::mark)?;
        self.marked = Some(self.len);
        Ok(())
    }

    /// The last position up to `len` that can be gone back to.
    pub fn way_back(&self, len: usize) -> usize {
        let marked = self.marked.filter(|marked| *marked <= len).unwrap_or(0);
        let len = if self.is_recurrent() && len < self.len { marked } else { len };
        if self.is_lost(len) { 0 } else { len.min(self.len) }
    }

    fn is_recurrent(&self) -> bool {
        self.layers.iter().any(|layer| layer.recurrent.is_some())
    }

    /// Whether the position behind the first `len` would see some that are there no more.
    fn is_lost(&self, len: usize) -> bool {
        let lost = |layer: &Layer| (len + 1).saturating_sub(layer.window) < layer.kv.first_kept(self.stored);
        len > 0 && len < self.len && (len < self.let_go || self.layers.iter().any(lost))
    }

    /// Forgets all positions from `len` on.
    ///
    /// # Errors
    /// When the next one would see positions that are there no more.
    pub fn truncate(&mut self, len: usize) -> Result<()> {
        if len >= self.len {
            return Ok(());
        }
        if len > 0 && self.is_recurrent() && self.marked != Some(len) {
            return Err(no_way_back(len, self.len));
        }
        if self.is_lost(len) {
            return Err(RuntimeError::Request(format!(
                "position {len} cannot be gone back to: not all positions are kept, neither by layers with a sliding window nor \
                 with --kv-window, and {} have been stored",
                self.stored
            )));
        }
        if len == 0 {
            self.restart(self.first);
        } else {
            self.recurrent_states().for_each(RecurrentState::return_to_mark);
            self.used -= self.len - len;
            self.len = len;
        }
        Ok(())
    }

    /// Makes the one layer that there is one of the shape of `index`.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn reshape(&mut self, config: &ModelConfig, index: u32, options: KvOptions) -> Result<()> {
        let (old, positions) = (&self.layers[0].kv, self.capacity);
        let AttentionShape { kv_heads, key_dim, value_dim, .. } = config.attention_shape(index);
        if (old.kv_heads(), old.head_dim(), old.value_dim()) != (kv_heads, key_dim, value_dim) {
            self.layers[0].kv = KvLayer::new(shape(config, index, options), positions);
            self.layers[0].kv.reserve(&mut self.slabs, positions)?;
        }
        Ok(())
    }

    /// Forgets everything, and is for the layers from `first` on.
    pub fn restart(&mut self, first: usize) {
        self.first = first;
        (self.len, self.stored, self.used, self.let_go) = (0, 0, 0, 0);
        self.marked = None;
        self.recurrent_states().for_each(RecurrentState::clear);
    }

    /// Where the keys and values of the next position are to be in `layer`, which counts those that are kept.
    pub fn position_in(&self, layer: usize) -> usize {
        if self.layers[self.slot(layer)].lets_go { self.used } else { self.len }
    }

    /// Stores keys and values of `layer` for the positions that follow; `keys` and `values` hold one row
    /// of all heads per position. [`KvCache::advance`] counts them once every layer has them.
    pub fn store(&mut self, cpu: &Cpu, layer: usize, keys: &[f32], values: &[f32]) {
        let position = self.position_in(layer);
        let slot = self.slot(layer);
        let Layer { kv, mass, .. } = &mut self.layers[slot];
        let positions = keys.len() / (kv.kv_heads() * kv.head_dim());
        self.stored = self.stored.max(self.len + positions);
        kv.store(cpu, position, keys, values);
        if !mass.is_empty() {
            let all = mass.len() / kv.kv_heads();
            for mass in mass.chunks_exact_mut(all) {
                mass[position..position + positions].fill(0.0);
            }
        }
    }

    /// Counts the attention that the queries of the next positions pay, where that decides what is kept.
    pub fn count_attention(&mut self, cpu: &Cpu, layer: usize, attention: &Attention<'_>, q: &[f32]) {
        let position = self.position_in(layer);
        let slot = self.slot(layer);
        let Layer { kv, mass, .. } = &mut self.layers[slot];
        if !mass.is_empty() {
            cpu.add_mass(attention, kv, position, q, mass);
        }
    }

    /// Where keys and values of a layer are.
    fn slot(&self, layer: usize) -> usize {
        self.slots[layer - self.first]
    }

    /// Counts `positions` more.
    pub fn advance(&mut self, positions: usize) {
        self.len += positions;
        self.used += positions;
        self.recurrent_states().for_each(RecurrentState::commit);
    }

    /// The state of a recurrent layer; `None` for others.
    pub fn recurrent(&mut self, layer: usize) -> Option<&mut RecurrentState> {
        let slot = self.slot(layer);
        self.layers[slot].recurrent.as_mut()
    }

    /// Keys and values of one layer.
    pub fn layer(&self, layer: usize) -> &KvLayer {
        &self.layers[self.slot(layer)].kv
    }
}

/// What a layer is to have room for.
struct Plan {
    /// Empty.
    kv: KvLayer,
    /// How much attention is counted for.
    mass: usize,
    recurrent: bool,
}

impl Plan {
    fn new(config: &ModelConfig, index: u32, capacity: usize, batch: usize, options: KvOptions) -> Plan {
        let shape = shape(config, index, options);
        let recurrent = config.recurrent(index).is_some();
        let only = |kv| Plan { kv, mass: 0, recurrent };
        if !config.has_attention(index) {
            return only(KvLayer::new(shape, 0));
        }
        match (config.window(index), options.keep) {
            (Some(_), _) if options.whole => only(KvLayer::new(shape, capacity)),
            // The first token of a step sees its window, the last itself.
            (Some(window), _) => only(KvLayer::ring(
                shape,
                (window as usize).saturating_sub(1).saturating_add(batch),
                capacity,
            )),
            (None, None) => only(KvLayer::new(shape, capacity)),
            (None, Some(keep)) => {
                let positions = keep.positions.saturating_add(batch.max(KvKeep::SLACK)).min(capacity);
                let counts = keep.policy == KvPolicy::HeavyHitters;
                let mass = if counts { shape.kv_heads.saturating_mul(positions) } else { 0 };
                Plan { mass, ..only(KvLayer::new(shape, positions)) }
            }
        }
    }

    /// Of a place that serves for each layer in turn.
    fn for_any(config: &ModelConfig, capacity: usize, options: KvOptions) -> Plan {
        let kv = KvLayer::new(shape(config, 0, options), capacity);
        Plan { kv, mass: 0, recurrent: config.recurrent.is_some() }
    }

    fn bytes(&self, config: &ModelConfig) -> u64 {
        let mass = (self.mass as u64).saturating_mul(size_of::<f32>() as u64);
        let recurrent = if self.recurrent { RecurrentState::bytes(config) } else { 0 };
        self.kv.bytes().saturating_add(mass).saturating_add(recurrent)
    }
}

fn shape(config: &ModelConfig, index: u32, options: KvOptions) -> KvShape {
    let AttentionShape { kv_heads, key_dim, value_dim, .. } = config.attention_shape(index);
    KvShape { kv_heads, head_dim: key_dim, value_dim, types: options.types }
}

fn check_keep(config: &ModelConfig, keep: KvKeep) -> Result<()> {
    keep.check()?;
    let refused = |why: &str| Err(RuntimeError::Request(format!("--kv-window: {why}")));
    if matches!(config.position, PositionConfig::Alibi { .. }) {
        return refused("the model weighs positions by their distance (ALiBi), so that none can be let go");
    }
    let keeps_all = |index| config.has_attention(index) && config.window(index).is_none();
    if !(0..config.layers).any(keeps_all) {
        return refused("no layer of the model keeps keys and values of all positions");
    }
    Ok(())
}
