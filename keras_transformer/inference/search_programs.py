"""Searches that are one program each, compiled by XLA for batches of a few sizes.

A search is a loop of small steps, and TensorFlow pays for each operation of a step. A
program that XLA compiles does not, but it is for one number of sentences and one length
of the sources. So batches are padded to a few sizes, each with a program of its own, or
cut into parts of such a size.
What is compiled is decided from outside, by `compile`: a batch of any other size is
searched as without programs, and nobody waits for a compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from keras_transformer.decoding import BeamSearchResult
from keras_transformer.translation.program_sizes import COMPILE, STATE, Size

# (tokens int32 [batch, source_length], limits int32 [batch],
#  prefix int32 [batch, prefix_length], num_best int32 []) -> BeamSearchResult
Search = Callable[[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor], BeamSearchResult]


class SearchPrograms(tf.Module):
    """The programs of a search.

    Args:
        search: The search. All sizes of its results must follow from those of its
            inputs, and XLA must be able to compile it.
        sizes: The sizes of the programs, in ascending order.
        pad_id: Fills sources and prefixes.
    """

    def __init__(self, search: Search, sizes: Sequence[Size], pad_id: int):
        super().__init__(name="search_programs")
        # A function, because TensorFlow wraps lists in attributes.
        self._sizes = lambda: sizes
        self._pad_id = pad_id
        self._program = tf.function(
            search,
            input_signature=[
                tf.TensorSpec([None, None], tf.int32),
                tf.TensorSpec([None], tf.int32),
                tf.TensorSpec([None, None], tf.int32),
                tf.TensorSpec([], tf.int32),
            ],
            autograph=False,
            jit_compile=True,
        )
        # One more number is that of all other sizes, which have no program.
        numbers = [len(sizes) + 1]
        with tf.device("CPU:0"):
            self._is_ready = tf.Variable(tf.zeros(numbers, tf.bool), trainable=False)
            self._num_missed = tf.Variable(tf.zeros(numbers, tf.int64), trainable=False)

    @property
    def sizes(self) -> list[Size]:
        """The sizes of the programs."""
        return [*self._sizes()]

    def search(
        self,
        tokens: tf.Tensor,
        limits: tf.Tensor,
        prefix: tf.Tensor,
        num_best: tf.Tensor,
        otherwise: Callable[[], BeamSearchResult],
    ) -> BeamSearchResult:
        """Search with the program of this size, in the graph.

        Args:
            tokens: int32 `[batch, source_length]`.
            limits: int32 `[batch]`, most tokens of an output.
            prefix: int32 `[batch, prefix_length]`.
            num_best: int32 scalar.
            otherwise: The search if that program is not compiled.
        """
        number = self._number(tokens, prefix)

        def run():
            rows, width, prefix_width = self._size(number)
            found = self._search_parts(
                self._in_parts(tokens, rows, width, self._pad_id),
                self._in_parts(limits[:, tf.newaxis], rows, 1, 0)[:, :, 0],
                self._in_parts(prefix, rows, prefix_width, self._pad_id),
                num_best,
            )
            count, most = tf.size(limits), tf.reduce_max(limits)
            found = tf.nest.map_structure(lambda part: part[:count], found)
            return found._replace(tokens=found.tokens[:, :, :most])

        # TensorFlow visits each operation of a branch that it does not take: with those
        # of a search, a millisecond or more. A function that is not inlined is one.
        apart = tf.function(
            otherwise, autograph=False, experimental_attributes={"_noinline": True}
        )

        def ask():
            asked = tf.one_hot(number, self._num_missed.shape[0], dtype=tf.int64)
            self._num_missed.assign_add(asked)
            return apart()

        return tf.cond(tf.gather(self._is_ready, number), run, ask)

    def compile(self, number: tf.Tensor) -> tf.Operation:
        """Compile a program, in the graph; from then on `search` runs it.

        Args:
            number: int32 scalar: its place in `sizes`.

        Returns:
            The operation that says so.
        """
        rows, width, prefix_width = self._size(number)
        found = self._program(
            tf.fill([rows, width], self._pad_id),
            tf.zeros([rows], tf.int32),
            tf.fill([rows, prefix_width], self._pad_id),
            1,
        )
        with tf.control_dependencies([found.scores]):
            # In place: others may be compiled at the same time.
            return tf.raw_ops.ResourceScatterUpdate(
                resource=self._is_ready.handle, indices=number, updates=True
            )

    def signatures(self) -> dict[str, tf.types.experimental.PolymorphicFunction]:
        """Return what an export has to compile its programs, by signature name.

        Both take "program", int32 `[batch]`: places in `sizes`. "compile" compiles
        these programs; "programs" compiles nothing. Both return "is_compiled", bool
        `[batch]`, and "num_missed", int64 `[batch]`: batches that were searched without
        a program because it was not compiled.
        """
        spec = tf.TensorSpec([None], tf.int32, name="program")
        functions = {COMPILE: self._compile_each, STATE: self._state}
        return {
            name: tf.function(function, input_signature=[spec], autograph=False)
            for name, function in functions.items()
        }

    def _compile_each(self, program):
        def body(place):
            with tf.control_dependencies([self.compile(program[place])]):
                return place + 1

        done = tf.while_loop(lambda place: place < tf.size(program), body, [0])
        with tf.control_dependencies([*tf.nest.flatten(done)]):
            return self._state(program)

    def _state(self, program):
        return {
            "is_compiled": tf.gather(self._is_ready, program),
            "num_missed": tf.gather(self._num_missed, program),
        }

    @property
    def _has_parts(self) -> bool:
        return any(size.parts > 1 for size in self.sizes)

    def _in_parts(self, values, rows, width, filler) -> tf.Tensor:
        """Fill up `[batch, length]` to pairs of parts, or to a single one.

        Returns:
            `[parts, rows, width]`.
        """
        count, own = tf.unstack(tf.shape(values))
        multiple = 2 * rows if self._has_parts else rows
        ends = [[0, -count % multiple], [0, width - own]]
        filled = tf.pad(values, ends, constant_values=filler)
        return tf.reshape(filled, [-1, rows, width])

    def _search_parts(self, tokens, limits, prefix, num_best) -> BeamSearchResult:
        """Search parts of a batch, `[parts, rows, ...]`, and join their results."""

        def search(number):
            part = (values[number] for values in (tokens, limits, prefix))
            return self._program(*part, num_best)

        if not self._has_parts:
            return search(0)

        def search_two(number):
            # TensorFlow starts both at once. In parallel iterations of a loop they
            # would wait for each other, because they read variables.
            two = search(2 * number), search(2 * number + 1)
            return tf.nest.map_structure(lambda *each: tf.stack(each), *two)

        def search_all():
            found = tf.map_fn(
                search_two,
                tf.range(tf.shape(tokens)[0] // 2),
                fn_output_signature=tf.nest.map_structure(
                    lambda result: tf.TensorSpec([2, *result.shape], result.dtype),
                    self._program.get_concrete_function().structured_outputs,
                ),
            )
            return tf.nest.map_structure(_joined, found)

        has_one = tf.reduce_all(limits[1:] == 0)
        return tf.cond(has_one, lambda: search(0), search_all)

    def _number(self, tokens, prefix) -> tf.Tensor:
        """Return the number of the smallest program that holds a batch."""
        needed = tf.concat([tf.shape(tokens), tf.shape(prefix)[1:]], axis=0)
        most = [(size.most_rows, size.width, size.prefix) for size in self.sizes]
        holds = tf.reduce_all(needed <= tf.constant(most), axis=1)
        # The first of them; the last number is that of no program.
        holds = tf.concat([holds & (needed[0] > 0), [True]], axis=0)
        return tf.argmax(holds, output_type=tf.int32)

    def _size(self, number) -> list[tf.Tensor]:
        """Return rows, width and prefix width of a program."""
        sizes = [(size.rows, size.width, size.prefix) for size in self.sizes]
        return tf.unstack(tf.gather(tf.constant(sizes), number))


def _joined(pairs) -> tf.Tensor:
    """Join `[pairs, 2, rows, ...]` to `[pairs * 2 * rows, ...]`."""
    joined = tf.reshape(pairs, tf.concat([[-1], tf.shape(pairs)[3:]], axis=0))
    return tf.ensure_shape(joined, [None, *pairs.shape[3:]])
