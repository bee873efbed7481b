"""Small widgets that know nothing of daemons, and of a run only what they are given to show.

- Putting things together: `layouts`, `wrapping`, `labels`, `controls`, `messages`, `toast`.
- Charts: `chart` with `axis`, `chart_lines`, `chart_bands`, `chart_ends` and `chart_marks`;
  `chart_grid` has many of them, `chart_clock` paints them; `interval_plot`, `evaluation_chart`,
  `pareto_chart` and `headline_charts` are charts of one kind.
- Fields of forms: `picker`, `more_names`, `field_editor`, `quick_values`, `card_list`,
  `agent_list`.
- Pictures: `frame_view`, `player`, `game_view`, `episode_view`, `mind_view`.
- Tables and lists: `run_table_view` with `delegates`, `legend_list`, `seed_grid`, `slot_row`,
  `study_view`.
- The rest of the window: `command_palette`, `log_view`, `web_view`, `hand_over`; `qt_types` is for
  the type checker.
"""
