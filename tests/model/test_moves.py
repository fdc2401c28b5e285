import graphs

from gradscope.model import moves


def test_source_lines_forwards_and_back():
    graph, tape = graphs.two_outputs()
    assert [moves.next_line(graph, tape, step) for step in range(5)] == [1, 2, 3, 4, 4]
    assert [moves.next_line(graph, tape, step, backward=True) for step in range(5)] == [0, 0, 1, 2, 2]


def test_a_line_of_several_nodes_is_one_move():
    graph, tape = graphs.gpt_like()
    # 1-3 cross_entropy :41, 4-8 lm_head :67
    assert moves.next_line(graph, tape, 0) == 1
    assert moves.next_line(graph, tape, 1) == 4
    assert moves.next_line(graph, tape, 6, backward=True) == 3


def test_modules():
    graph, tape = graphs.gpt_like()
    # 1-3 outside modules, 4-8 lm_head, 9-11 ln_f, 12-54 h.5: 12 its own, 13-25 its mlp
    assert [moves.end_of_module(graph, tape, step) for step in (0, 1, 3, 5, 8, 11)] == [3, 3, 8, 8, 11, 54]
    assert moves.end_of_module(graph, tape, 12) == 54
    assert moves.end_of_module(graph, tape, 21) == 25
    assert moves.end_of_module(graph, tape, tape.steps) == tape.steps
    assert [moves.end_of_module(graph, tape, step, backward=True) for step in (0, 3, 8, 7, 54)] == [0, 0, 3, 3, 51]
    assert moves.end_of_module(graph, tape, 12, backward=True) == 11


def test_breaks():
    _, tape = graphs.two_outputs()
    assert [moves.next_break(tape, step, [2, 3]) for step in range(5)] == [2, 2, 3, 4, 4]
    assert [moves.next_break(tape, step, [2, 3], backward=True) for step in range(5)] == [0, 0, 0, 2, 3]
