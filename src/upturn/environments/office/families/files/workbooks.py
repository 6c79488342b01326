"""Tasks in workbooks: questions, writing, formulas, sorting, filtering and pivot tables."""

from upturn.environments.office.generation import (
    GROUP_VALUES,
    KEYS,
    Draft,
    Family,
    Look,
    Obstacle,
    Scene,
    add_sheet,
    call,
    find_file,
    grouped_table,
    plain_table,
)


def _cell_say(scene: Scene) -> Draft:
    table = plain_table(scene)
    row, column = scene.rng.randrange(1, len(table.rows)), scene.rng.randrange(1, 3)
    cell = table.address(row, column)
    return Draft.with_answer(
        {"book": table.name, "cell": cell},
        table.amount(row, column),
        find_file(table.name),
        call("excel.read_range", id=table.file.id, range=cell),
    )


def _cell_set(scene: Scene) -> Draft:
    table = plain_table(scene)
    cell, value = f"{scene.rng.choice('BCDE')}{scene.rng.randint(2, 20)}", str(scene.rng.randint(1_000, 9_999))
    return Draft.with_finish(
        {"book": table.name, "cell": cell, "value": value},
        find_file(table.name),
        call("excel.write_range", id=table.file.id, at=cell, rows=[[value]]),
    )


def _total(scene: Scene) -> Draft:
    table = plain_table(scene)
    return Draft.with_finish(
        {"book": table.name}, find_file(table.name), call("excel.run_macro", id=table.file.id, name="total_row")
    )


def _row_ask(scene: Scene) -> Draft:
    table = plain_table(scene, most=40)
    row, column = scene.rng.randrange(1, len(table.rows)), scene.rng.randrange(1, 3)
    return Draft.with_answer(
        {"book": table.name, "key": table.amount(row, 0), "column": table.rows[0][column]},
        table.amount(row, column),
        find_file(table.name),
        *table.crossing(row, column),
        call("excel.read_range", id=table.file.id, range=table.address(row, column)),
    )


def _row_set(scene: Scene) -> Draft:
    table = plain_table(scene, most=40)
    row, column = scene.rng.randrange(1, len(table.rows)), scene.rng.randrange(1, 3)
    value = str(scene.rng.randint(1_000, 9_999))
    return Draft.with_finish(
        {"book": table.name, "key": table.amount(row, 0), "column": table.rows[0][column], "value": value},
        find_file(table.name),
        *table.crossing(row, column),
        call("excel.write_range", id=table.file.id, at=table.address(row, column), rows=[[value]]),
    )


def _row_missing(scene: Scene) -> Draft:
    """The row was removed, as another sheet says; a refusal must name who removed it."""
    table = plain_table(scene)
    removed = scene.rng.sample([key for key in KEYS if key not in {row[0] for row in table.rows}], 3)
    people, value = scene.people(3), str(scene.rng.randint(1_000, 9_999))
    rows = [["item", "taken out by"], *([key, who] for key, who in zip(removed, people, strict=True))]
    add_sheet(scene, table, "taken out", rows)
    keys, id_ = (table.rows[1][0], table.rows[-1][0]), table.file.id
    looks = (Look("excel", (id_, removed[0])), Look("excel", (id_,), keys))
    return Draft.with_refusal(
        {"book": table.name, "key": removed[0], "column": table.rows[0][1], "value": value},
        people[0],
        find_file(table.name),
        call("excel.find", id=table.file.id, text=removed[0], is_whole=True),
        call("excel.read_range", id=table.file.id, sheet="taken out"),
        text=f"{removed[0]} is not in the {table.name} any more: {people[0]} took it out",
        obstacle=Obstacle("missing", looks),
    )


def _product(scene: Scene) -> Draft:
    table = plain_table(scene)
    last = len(table.rows)
    header = scene.rng.choice(("total", "value", "result"))
    return Draft.with_finish(
        {"book": table.name, "one": table.rows[0][1], "other": table.rows[0][2], "header": header},
        find_file(table.name),
        call("excel.open", id=table.file.id),
        call("excel.write_range", id=table.file.id, at="D1", rows=[[header]]),
        call("excel.insert_formula", id=table.file.id, range=f"D2:D{last}", formula="=B2*C2"),
    )


def _order(scene: Scene) -> Draft:
    table = plain_table(scene)
    order, description = scene.rng.choice((("asc", "smallest first"), ("desc", "largest first")))
    column = table.rows[0][scene.rng.randrange(1, 3)]
    return Draft.with_finish(
        {"book": table.name, "column": column, "order": description},
        find_file(table.name),
        call("excel.sort", id=table.file.id, by=column, order=order),
    )


def _only(scene: Scene) -> Draft:
    table = grouped_table(scene)
    group = table.rows[0][0]
    value = scene.rng.choice(GROUP_VALUES[group])
    return Draft.with_finish(
        {"book": table.name, "group": group, "value": value},
        find_file(table.name),
        call("excel.filter", id=table.file.id, column=group, value=value),
    )


def _summary(scene: Scene) -> Draft:
    table = grouped_table(scene)
    group, _, column = table.rows[0]
    sheet, kind = scene.rng.choice(("summary", "overview", "totals")), scene.rng.choice(("bar", "pie", "line"))
    last = len(GROUP_VALUES[group]) + 1
    return Draft.with_finish(
        {
            "book": table.name,
            "group": group,
            "column": column,
            "sheet": sheet,
            "chart": f"{kind} chart without the total",
        },
        find_file(table.name),
        call("excel.open", id=table.file.id),
        call("excel.add_sheet", id=table.file.id, name=sheet),
        call(
            "excel.pivot_table", id=table.file.id, sheet="data", rows=group, values=column, at="A1", to_sheet=sheet
        ),
        call("excel.create_chart", id=table.file.id, sheet=sheet, kind=kind, range=f"A1:B{last}"),
    )


FAMILIES = (
    Family("cell_say", 1, ("sharepoint", "excel"), _cell_say),
    Family("cell_set", 1, ("sharepoint", "excel"), _cell_set),
    Family("table_total", 1, ("sharepoint", "excel"), _total),
    Family("table_sort", 1, ("sharepoint", "excel"), _order),
    Family("table_filter", 1, ("sharepoint", "excel"), _only),
    Family("row_ask", 2, ("sharepoint", "excel"), _row_ask),
    Family("row_set", 2, ("sharepoint", "excel"), _row_set),
    Family("row_missing", 2, ("sharepoint", "excel"), _row_missing, worded_as="row_set"),
    Family("column_product", 2, ("sharepoint", "excel"), _product),
    Family("table_summary", 3, ("sharepoint", "excel"), _summary),
)
