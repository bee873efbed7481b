"""What the window knows, free of widgets: everything here can be tested without a screen.

- Runs and their table: `run_store`, `run_order`, `run_columns`, `run_table`, `table_look`,
  `run_csv`.
- What forms hold: `train_draft`, `sweep_draft`, `arena_draft`, `launch`, `curriculum`, `phases`,
  `form_grid`; their fields: `form_fields`; what they offer: `actors`, `environments`, `presets`,
  `requirement_sets`, `wandb_proxy`; what they can be copied as: `draft_export`.
- What is shown of a run: `series` (curves), `artifacts` (its files), `episodes`, `evaluation`,
  `failure`, `health`, `log_folding`, `optuna_study`, `wandb_local`; of several: `config_diff`,
  `facets`, `report_words`; what leaves the window as files: `leaving`.
- The window itself: `window_settings`, `dock_layouts`, `palette_items`, `notices`, `machine`,
  `stored` (what it wrote down, read without trust).
"""
