"""Tasks in workbooks: asking, writing, computing, arranging and summing up."""

from upturn.environments.office.generation import (
    FINISH,
    GROUP_VALUES,
    KEYS,
    Draft,
    Family,
    Scene,
    add_sheet,
    answer,
    call,
    grouped_table,
    plain_table,
    refusal,
)


def _cell_say(scene: Scene) -> Draft:
    table = plain_table(scene)
    row, column = scene.rng.randrange(1, len(table.rows)), scene.rng.randrange(1, 3)
    cell = f"{'ABC'[column]}{row + 1}"
    return Draft(
        {"book": table.name, "cell": cell},
        (
            call("sharepoint.search", query=table.name),
            call("excel.read_range", id=table.file.id, range=cell),
            answer(table.amount(row, column)),
        ),
        answer=table.amount(row, column),
    )


def _cell_set(scene: Scene) -> Draft:
    table = plain_table(scene)
    cell, value = f"{scene.rng.choice('BCDE')}{scene.rng.randint(2, 20)}", str(scene.rng.randint(1_000, 9_999))
    return Draft(
        {"book": table.name, "cell": cell, "value": value},
        (
            call("sharepoint.search", query=table.name),
            call("excel.write_range", id=table.file.id, at=cell, rows=[[value]]),
            FINISH,
        ),
    )


def _total(scene: Scene) -> Draft:
    table = plain_table(scene)
    return Draft(
        {"book": table.name},
        (
            call("sharepoint.search", query=table.name),
            call("excel.run_macro", id=table.file.id, name="total_row"),
            FINISH,
        ),
    )


def _row_ask(scene: Scene) -> Draft:
    table = plain_table(scene, most=40)
    row, column = scene.rng.randrange(1, len(table.rows)), scene.rng.randrange(1, 3)
    return Draft(
        {"book": table.name, "key": table.amount(row, 0), "column": table.rows[0][column]},
        (
            call("sharepoint.search", query=table.name),
            *table.crossing(row, column),
            call("excel.read_range", id=table.file.id, range=f"{'ABC'[column]}{row + 1}"),
            answer(table.amount(row, column)),
        ),
        answer=table.amount(row, column),
    )


def _row_set(scene: Scene) -> Draft:
    table = plain_table(scene, most=40)
    row, column = scene.rng.randrange(1, len(table.rows)), scene.rng.randrange(1, 3)
    value = str(scene.rng.randint(1_000, 9_999))
    return Draft(
        {"book": table.name, "key": table.amount(row, 0), "column": table.rows[0][column], "value": value},
        (
            call("sharepoint.search", query=table.name),
            *table.crossing(row, column),
            call("excel.write_range", id=table.file.id, at=f"{'ABC'[column]}{row + 1}", rows=[[value]]),
            FINISH,
        ),
    )


def _row_missing(scene: Scene) -> Draft:
    """A row that was taken out, as another sheet says: a refusal has to tell by whom."""
    table = plain_table(scene)
    gone = scene.rng.sample([key for key in KEYS if key not in {row[0] for row in table.rows}], 3)
    people, value = scene.people(3), str(scene.rng.randint(1_000, 9_999))
    rows = [["item", "taken out by"], *([key, who] for key, who in zip(gone, people, strict=True))]
    add_sheet(scene, table, "taken out", rows)
    return Draft(
        {"book": table.name, "key": gone[0], "column": table.rows[0][1], "value": value},
        (
            call("sharepoint.search", query=table.name),
            call("excel.find", id=table.file.id, text=gone[0], is_whole=True),
            call("excel.read_range", id=table.file.id, sheet="taken out"),
            refusal(f"{gone[0]} is not in the {table.name} any more: {people[0]} took it out"),
        ),
        answer=people[0],
        is_feasible=False,
    )


def _product(scene: Scene) -> Draft:
    table = plain_table(scene)
    last = len(table.rows)
    header = scene.rng.choice(("total", "value", "result"))
    return Draft(
        {"book": table.name, "one": table.rows[0][1], "other": table.rows[0][2], "header": header},
        (
            call("sharepoint.search", query=table.name),
            call("excel.open", id=table.file.id),
            call("excel.write_range", id=table.file.id, at="D1", rows=[[header]]),
            call("excel.insert_formula", id=table.file.id, range=f"D2:D{last}", formula="=B2*C2"),
            FINISH,
        ),
    )


def _order(scene: Scene) -> Draft:
    table = plain_table(scene)
    order, words = scene.rng.choice((("asc", "smallest first"), ("desc", "largest first")))
    column = table.rows[0][scene.rng.randrange(1, 3)]
    return Draft(
        {"book": table.name, "column": column, "order": words},
        (
            call("sharepoint.search", query=table.name),
            call("excel.sort", id=table.file.id, by=column, order=order),
            FINISH,
        ),
    )


def _only(scene: Scene) -> Draft:
    table = grouped_table(scene)
    group = table.rows[0][0]
    value = scene.rng.choice(GROUP_VALUES[group])
    return Draft(
        {"book": table.name, "group": group, "value": value},
        (
            call("sharepoint.search", query=table.name),
            call("excel.filter", id=table.file.id, column=group, value=value),
            FINISH,
        ),
    )


def _summary(scene: Scene) -> Draft:
    table = grouped_table(scene)
    group, _, column = table.rows[0]
    sheet, kind = scene.rng.choice(("summary", "overview", "totals")), scene.rng.choice(("bar", "pie", "line"))
    last = len(GROUP_VALUES[group]) + 1
    return Draft(
        {
            "book": table.name,
            "group": group,
            "column": column,
            "sheet": sheet,
            "chart": f"{kind} chart without the total",
        },
        (
            call("sharepoint.search", query=table.name),
            call("excel.open", id=table.file.id),
            call("excel.add_sheet", id=table.file.id, name=sheet),
            call(
                "excel.pivot_table",
                id=table.file.id,
                sheet="data",
                rows=group,
                values=column,
                at="A1",
                to_sheet=sheet,
            ),
            call("excel.create_chart", id=table.file.id, sheet=sheet, kind=kind, range=f"A1:B{last}"),
            FINISH,
        ),
    )


_SETTING = (
    "set the {column} of {key} in the {book} to {value}",
    "in the {book}, change the {column} of {key} to {value}",
    "{key} has a new {column}: {value}; update the {book}",
    "update the {book}: the {column} of {key} is {value}",
    "the {column} of {key} is {value} now, put that into the {book}",
    "correct the {book}: for {key}, the {column} is {value}",
    "make the {column} of {key} {value} in the {book}",
    "write {value} as the {column} of {key} in the {book}",
    "enter {value} for the {column} of {key} in the {book}",
    "{value} is the right {column} of {key}, fix the {book}",
)
_SETTING_HELDOUT = (
    "the {book} should give {value} as {key}'s {column}",
    "put {key}'s {column} at {value} in the {book}",
    "replace the {column} of {key} by {value} in the {book}",
    "the {column} of {key} is {value} by now, see that the {book} has it so",
)
"""The same words whether it can be done or not."""

FAMILIES = (
    Family(
        "cell_say",
        1,
        ("sharepoint", "excel"),
        _cell_say,
        templates=(
            "what does {cell} say in the {book}?",
            "tell me what stands in {cell} of the {book}",
            "read me {cell} from the {book}",
            "which value is in {cell} of the {book}?",
            "look up {cell} in the {book}",
            "i need the content of {cell} in the {book}",
            "open the {book} and tell me {cell}",
            "{book}, cell {cell}: what is it?",
            "what is the value of {cell} in our {book}?",
            "give me {cell} of the {book}",
        ),
        heldout=(
            "check the {book} for me: what is in {cell}?",
            "cell {cell} of the {book}, what does it show?",
            "from the {book} i want to know {cell}",
            "what value does {cell} hold, in the {book}?",
        ),
    ),
    Family(
        "cell_set",
        1,
        ("sharepoint", "excel"),
        _cell_set,
        templates=(
            "put {value} into {cell} of the {book}",
            "write {value} in {cell} of the {book}",
            "set {cell} in the {book} to {value}",
            "enter {value} at {cell} in the {book}",
            "in the {book}, {cell} should be {value}",
            "change {cell} of the {book} to {value}",
            "the {book} needs {value} in {cell}",
            "make {cell} in the {book} {value}",
            "type {value} into cell {cell} of the {book}",
            "{cell} of the {book} is {value} now, update it",
        ),
        heldout=(
            "update the {book}: {cell} becomes {value}",
            "fill {value} into {cell}, in the {book}",
            "cell {cell} of the {book} has to say {value}",
            "change {cell} of the {book} over to {value}",
        ),
    ),
    Family(
        "table_total",
        1,
        ("sharepoint", "excel"),
        _total,
        templates=(
            "add a total row to the {book}",
            "put totals below the table in the {book}",
            "the {book} needs a row with totals",
            "sum up the columns of the {book} in a total row",
            "run the total macro on the {book}",
            "give the {book} a total row",
            "write the totals under the {book}",
            "add the sums at the end of the {book}",
            "i need a total row in the {book}",
            "finish the {book} with a row of totals",
        ),
        heldout=(
            "below the table of the {book} there should be totals",
            "append a total row to the table in the {book}",
            "close the {book} off with a total row",
            "the {book} should end in a row of totals",
        ),
    ),
    Family(
        "table_sort",
        1,
        ("sharepoint", "excel"),
        _order,
        templates=(
            "sort the {book} by {column}, {order}",
            "order the {book} by {column}, {order}",
            "put the rows of the {book} in order of {column}, {order}",
            "arrange the {book} by {column} with the {order}",
            "the {book} should be sorted by {column}, {order}",
            "sort the table in the {book}: {column}, {order}",
            "by {column}, {order}: sort the {book} that way",
            "bring the {book} into order by {column}, {order}",
            "i want the {book} sorted by {column}, {order}",
            "re-order the {book}, {column} {order}",
        ),
        heldout=(
            "make {column} the order of the {book}, {order}",
            "rank the rows of the {book} by {column}, {order}",
            "the {book}, sorted by {column}, {order}",
            "have the rows of the {book} go by {column}, {order}",
        ),
    ),
    Family(
        "table_filter",
        1,
        ("sharepoint", "excel"),
        _only,
        templates=(
            "show only {group} {value} in the {book}",
            "filter the {book} to {group} {value}",
            "in the {book}, show only rows whose {group} is {value}",
            "set a filter on {group} in the {book}: {value}",
            "hide everything but {group} {value} in the {book}",
            "filter the {group} column of the {book} for {value}",
            "i only want to see {group} {value} in the {book}",
            "limit the {book} to the {group} {value}",
            "the {book} should show just {group} {value}",
            "narrow the {book} down to {group} {value}",
        ),
        heldout=(
            "leave only {group} {value} in sight in the {book}",
            "filter on {group} {value}, in the {book}",
            "of the {book} show the rows of {group} {value} only",
            "no {group} but {value} should show in the {book}",
        ),
    ),
    Family(
        "row_ask",
        2,
        ("sharepoint", "excel"),
        _row_ask,
        templates=(
            "what is the {column} of {key} in the {book}?",
            "how much is the {column} of {key}, by the {book}?",
            "look up the {column} of {key} in the {book}",
            "tell me {key}'s {column} from the {book}",
            "find {key} in the {book} and tell me the {column}",
            "i need the {column} for {key} from the {book}",
            "which {column} does the {book} give for {key}?",
            "in the {book}, what is the {column} of {key}?",
            "what does the {book} have as the {column} of {key}?",
            "check the {book}: what {column} do we have for {key}?",
        ),
        heldout=(
            "read me the {column} of {key} out of the {book}",
            "what does the {book} say about the {column} of {key}?",
            "by the {book}, what {column} does {key} have?",
            "look for {key} in the {book}: what {column} is given there?",
        ),
    ),
    Family(
        "row_set",
        2,
        ("sharepoint", "excel"),
        _row_set,
        templates=_SETTING,
        heldout=_SETTING_HELDOUT,
    ),
    Family(
        "row_missing",
        2,
        ("sharepoint", "excel"),
        _row_missing,
        templates=_SETTING,
        heldout=_SETTING_HELDOUT,
    ),
    Family(
        "column_product",
        2,
        ("sharepoint", "excel"),
        _product,
        templates=(
            'add a column "{header}" to the {book}: {one} times {other}, as formulas',
            'in the {book}, compute {one} times {other} in a new column "{header}"',
            'the {book} needs a column "{header}" with formulas for {one} times {other}',
            'give the {book} a fourth column "{header}" = {one} times {other}',
            'put formulas into a new column "{header}" of the {book}: {one} times {other}',
            'multiply {one} by {other} in column D of the {book}, header "{header}"',
            'write "{header}" into D1 of the {book} and {one} times {other} below, as formulas',
            'for every row of the {book}, {one} times {other} in a column "{header}"',
            'compute the "{header}" of each row of the {book}: {one} times {other}',
            'extend the {book} by "{header}", which is {one} times {other} as a formula',
        ),
        heldout=(
            'a new column "{header}" in the {book}, please: formulas with {one} times {other}',
            'let the {book} work out {one} times {other} in column D, called "{header}"',
            'i want "{header}" as a fourth column of the {book}, {one} times {other}',
            'to the {book}, add formulas for {one} times {other}, as a column "{header}"',
        ),
    ),
    Family(
        "table_summary",
        3,
        ("sharepoint", "excel"),
        _summary,
        templates=(
            'sum the {column} by {group} of the {book} on a new sheet "{sheet}" and draw a {chart}',
            'in the {book}, add a sheet "{sheet}": a pivot table, {column} by {group}, and a {chart}',
            'pivot the {book}: {column} by {group}, on a new sheet "{sheet}", with a {chart}',
            'make a new sheet "{sheet}" of the {book} with the {column} for each {group}, and a {chart}',
            'i need {column} by {group} as a pivot table and a {chart} on a sheet "{sheet}" in the {book}',
            'summarise the {book} by {group} ({column}) on a sheet called "{sheet}", plus a {chart}',
            'new sheet "{sheet}" in the {book}: pivot table of {column} by {group}, and a {chart}',
            'total the {column} of each {group} in the {book} on a sheet "{sheet}", then draw a {chart}',
            'the {book} needs a sheet "{sheet}": {column} summed by {group}, with a {chart}',
            'build "{sheet}" in the {book}: {column} by {group} as a pivot table, and a {chart}',
        ),
        heldout=(
            'on a new sheet "{sheet}" of the {book}: {column} per {group} as a pivot table, and a {chart}',
            'draw a {chart} of the {column} by {group} of the {book}, from a pivot table on a new sheet "{sheet}"',
            'give the {book} a sheet "{sheet}" that sums {column} by {group} and has a {chart}',
            'sum up {column} by {group} of the {book} in a pivot table on a new sheet "{sheet}", with a {chart}',
        ),
    ),
)
